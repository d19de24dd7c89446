// Sums and maxima over a warp or a block, in an order that depends on the shape alone.

#ifndef HYDRANT_KERNELS_CUDA_REDUCE_H_
#define HYDRANT_KERNELS_CUDA_REDUCE_H_

#include "kernels/cuda/platform.h"

namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE {

// Every lane gets the result.
__device__ inline float WarpSum(float value) {
  for (int lanes = kWarpSize / 2; lanes > 0; lanes /= 2) {
    value += __shfl_xor_sync(kWholeWarp, value, lanes);
  }
  return value;
}

__device__ inline float WarpMax(float value) {
  for (int lanes = kWarpSize / 2; lanes > 0; lanes /= 2) {
    value = fmaxf(value, __shfl_xor_sync(kWholeWarp, value, lanes));
  }
  return value;
}

// Every thread of a block of kThreads gets the result.
template <int kThreads>
__device__ float BlockSum(float value) {
  HYDRANT_SHARED(float, warps, kThreads / kWarpSize);
  value = WarpSum(value);
  if (threadIdx.x % kWarpSize == 0) warps[threadIdx.x / kWarpSize] = value;
  __syncthreads();
  float sum = 0.0f;
  for (int i = 0; i < kThreads / kWarpSize; ++i) sum += warps[i];
  __syncthreads();
  return sum;
}

}  // namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE

#endif  // HYDRANT_KERNELS_CUDA_REDUCE_H_
