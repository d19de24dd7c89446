// Sums and maxima over a warp or a block, in an order that depends on the shape alone.

#ifndef HYDRANT_KERNELS_CUDA_REDUCE_H_
#define HYDRANT_KERNELS_CUDA_REDUCE_H_

#include "kernels/cuda/platform.h"

namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE {

#ifdef __CUDACC__
// Reduces several values of each lane: (a, b) = (op(a, b), op(b, a)) for lanes that are 16 apart,
// then 8, 4, 2 and 1. Every lane gets the results, in place of its values.
template <int kCount, typename Op>
__device__ inline void WarpReduce(float (&values)[kCount], const Op& op) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    for (int lanes = kWarpSize / 2; lanes > 0; lanes /= 2) {
      values[i] = op(values[i], __shfl_xor_sync(kWholeWarp, values[i], lanes));
    }
  }
}

// The same over the four lanes 4 i to 4 i + 3: lanes 1 apart, then 2.
template <int kCount, typename Op>
__device__ inline void QuadReduce(float (&values)[kCount], const Op& op) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    for (int lanes = 1; lanes <= 2; lanes *= 2) {
      values[i] = op(values[i], __shfl_xor_sync(kWholeWarp, values[i], lanes));
    }
  }
}
#else
using ::cuda_emulator::QuadReduce;
using ::cuda_emulator::WarpReduce;
#endif

template <int kCount>
__device__ inline void WarpSums(float (&values)[kCount]) {
  WarpReduce(values, [](float a, float b) { return a + b; });
}
__device__ inline float WarpSum(float value) {
  float values[1] = {value};
  WarpSums(values);
  return values[0];
}
__device__ inline float WarpMax(float value) {
  float values[1] = {value};
  WarpReduce(values, [](float a, float b) { return fmaxf(a, b); });
  return values[0];
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
