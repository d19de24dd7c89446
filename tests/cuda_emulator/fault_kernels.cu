// Kernels with one fault each, and the same without: what the emulator must and must not report.

#include <cuda_runtime.h>

#include "kernels/cuda/mma.h"
#include "kernels/cuda/platform.h"
#include "tests/cuda_emulator/fault_kernels.h"

namespace cuda_emulator {
namespace {

constexpr int kThreads = 64;
constexpr unsigned kWholeWarp = 0xffffffffu;

__global__ void SumKernel(const float* x, float* out, Fault fault) {
  HYDRANT_SHARED(float, sums, kThreads);
  const int t = threadIdx.x;
  sums[t] = 0.0f;
  __syncthreads();
  sums[t] = x[t];
  for (int stride = kThreads / 2; stride > 0; stride /= 2) {
    if (fault != Fault::kMissingBarrier) __syncthreads();
    if (t < stride) sums[t] += sums[t + stride];
  }
  if (t == 0) *out = sums[0];
}

// The lower half of the block waits where the upper half does not.
__global__ void DivergentBarrierKernel(const float* x, float* out) {
  HYDRANT_SHARED(float, sums, kThreads);
  sums[threadIdx.x] = x[threadIdx.x];
  if (threadIdx.x < kThreads / 2) __syncthreads();
  if (threadIdx.x == 0) *out = sums[kThreads - 1];
}

__global__ void TwoBarriersKernel(const float* x, float* out) {
  if (threadIdx.x < kThreads / 2) {
    __syncthreads();
  } else {
    __syncthreads();
  }
  if (threadIdx.x == 0) *out = x[0];
}

__global__ void WarpSumKernel(const float* x, float* out, unsigned mask, bool half) {
  float sum = x[threadIdx.x];
  if (!half || threadIdx.x % 32 < 16) {
    for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(mask, sum, lanes);
  }
  if (threadIdx.x == 0) *out = sum;
}

// Lanes of a warp pass values through shared memory.
__global__ void WarpExchangeKernel(const float* x, float* out, bool synchronise) {
  HYDRANT_SHARED(float, values, kThreads);
  const int t = threadIdx.x;
  values[t] = 0.0f;
  __syncthreads();
  values[t] = x[t];
  if (synchronise) __syncwarp(kWholeWarp);
  out[t] = values[t ^ 1];
}

__global__ void IndexKernel(const float* x, float* out, int shared_index, int device_index) {
  HYDRANT_SHARED(float, values, kThreads);
  HYDRANT_SHARED(float, neighbour, kThreads);
  values[threadIdx.x] = neighbour[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  if (threadIdx.x == 0) *out = values[shared_index] + x[device_index];
}

__global__ void UnwrittenKernel(float* out) {
  HYDRANT_SHARED(float, values, kThreads);
  if (threadIdx.x != 7) values[threadIdx.x] = 1.0f;
  __syncthreads();
  if (threadIdx.x == 0) *out = values[7];
}

// All blocks add to one score, or each to its own.
__global__ void ScoreKernel(const float* x, float* scores, bool shared_score) {
  if (threadIdx.x == 0) scores[shared_score ? 0 : blockIdx.x] += x[blockIdx.x];
}

__global__ void CountKernel(int* count) { atomicAdd(count, 1); }

__global__ void AsyncCopyKernel(const float* x, float* out, bool wait) {
  HYDRANT_SHARED(float, values, kThreads * 4);
  const int t = threadIdx.x;
  hydrant::kernels::HYDRANT_CUDA_NAMESPACE::CopyAsync16(values + 4 * t, x + 4 * t);
  hydrant::kernels::HYDRANT_CUDA_NAMESPACE::CopyAsyncCommit();
  if (wait) hydrant::kernels::HYDRANT_CUDA_NAMESPACE::CopyAsyncWait<0>();
  __syncthreads();
  for (int i = 0; i < 4; ++i) out[4 * t + i] = values[4 * t + i];
}

}  // namespace

void RunSum(const float* x, float* out, Fault fault) {
  switch (fault) {
    case Fault::kNone:
    case Fault::kMissingBarrier:
      HYDRANT_LAUNCH(SumKernel, 1, kThreads, 0, nullptr, x, out, fault);
      return;
    case Fault::kDivergentBarrier:
      HYDRANT_LAUNCH(DivergentBarrierKernel, 1, kThreads, 0, nullptr, x, out);
      return;
    case Fault::kTwoBarriers:
      HYDRANT_LAUNCH(TwoBarriersKernel, 1, kThreads, 0, nullptr, x, out);
      return;
  }
}

void RunWarpSum(const float* x, float* out, unsigned mask, bool half) {
  HYDRANT_LAUNCH(WarpSumKernel, 1, kThreads, 0, nullptr, x, out, mask, half);
}
void RunWarpExchange(const float* x, float* out, bool synchronise) {
  HYDRANT_LAUNCH(WarpExchangeKernel, 1, kThreads, 0, nullptr, x, out, synchronise);
}
void RunIndex(const float* x, float* out, int shared_index, int device_index) {
  HYDRANT_LAUNCH(IndexKernel, 1, kThreads, 0, nullptr, x, out, shared_index, device_index);
}
void RunUnwritten(float* out) { HYDRANT_LAUNCH(UnwrittenKernel, 1, kThreads, 0, nullptr, out); }
void RunScore(const float* x, float* scores, int blocks, bool shared_score) {
  HYDRANT_LAUNCH(ScoreKernel, blocks, 32, 0, nullptr, x, scores, shared_score);
}
void RunCount(int* count, int blocks) {
  HYDRANT_LAUNCH(CountKernel, blocks, kThreads, 0, nullptr, count);
}
void RunAsyncCopy(const float* x, float* out, bool wait) {
  HYDRANT_LAUNCH(AsyncCopyKernel, 1, kThreads, 0, nullptr, x, out, wait);
}

}  // namespace cuda_emulator
