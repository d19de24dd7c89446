#include "kernels/cuda/attention.h"
#include "kernels/cuda/kv_reader.h"
#include "kernels/cuda/mma.h"
#include "kernels/cuda/numbers.h"
#include "kernels/cuda/weighted_sum.h"

namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE {
namespace {

constexpr int kCombineThreads = 128;

// Adds up the parts of a sequence's one row for the heads of a KV head; then the scores.
template <bool kRotated>
__global__ void __launch_bounds__(kCombineThreads)
    CombineKernel(AttentionArgs args, int first_single) {
  HYDRANT_SHARED(float, result, kMaxHeadDim);
  constexpr int kChannels = kMaxHeadDim / kCombineThreads;
  const DeviceSequence sequence =
      args.batch.sequences[args.batch.singles[first_single + blockIdx.x]];
  const int kv_head = blockIdx.y;
  const int head_dim = args.kv.head_dim;
  const int splits = SplitsOf(sequence.num_slots);
  const int64_t row = sequence.first_row;
  for (int head = kv_head * args.group; head < (kv_head + 1) * args.group; ++head) {
    SumOfWeights total;
    float values[kChannels] = {};
    for (int split = 0; split < splits; ++split) {
      const float* from =
          args.parts + ((static_cast<int64_t>(sequence.first_split) + split) * args.heads + head) *
                           (head_dim + 2);
      const Factors factors = total.Add({from[0], from[1]});
#pragma unroll
      for (int i = 0; i < kChannels; ++i) {
        const int d = threadIdx.x + i * kCombineThreads;
        const float value = d < head_dim ? from[2 + d] : 0.0f;
        values[i] = values[i] * factors.own + value * factors.added;
      }
    }
    if (threadIdx.x == 0) {
      args.sums[(row * args.heads + head) * 2] = total.exponent;
      args.sums[(row * args.heads + head) * 2 + 1] = total.sum;
    }
#pragma unroll
    for (int i = 0; i < kChannels; ++i) {
      const int d = threadIdx.x + i * kCombineThreads;
      if (d < head_dim) result[d] = values[i] / total.sum;
    }
    __syncthreads();
    if (kRotated && threadIdx.x < kWarpSize) {
      RotateRow(result, head_dim, args.kv.rotation, args.kv.normalise);
    }
    __syncthreads();
    float* to = args.out + (row * args.heads + head) * head_dim;
    for (int d = threadIdx.x; d < head_dim; d += kCombineThreads) to[d] = result[d];
    __syncthreads();
  }
  if (sequence.keep_scores == 0) return;
  for (int slot = threadIdx.x; slot < sequence.num_slots; slot += kCombineThreads) {
    const int64_t split = static_cast<int64_t>(sequence.first_split) + slot / kSplitSlots;
    float share = 0.0f;
    for (int head = kv_head * args.group; head < (kv_head + 1) * args.group; ++head) {
      const float* sums = args.sums + (row * args.heads + head) * 2;
      const float logit =
          args.logits[(split * args.heads + head) * kSplitSlots + slot % kSplitSlots];
      share += Share(Exp2(logit - sums[0]), sums[1], 1.0f / sums[1]);
    }
    args.kv.scores[EntryOf(args.kv, kv_head,
                           PhysicalSlot(args.batch.blocks + sequence.blocks, slot))] += share;
  }
}

}  // namespace

void LaunchCombine(const AttentionArgs& args, int first_single, int singles, cudaStream_t stream) {
  const dim3 grid(singles, args.kv.kv_heads);
  if (KvIsGrouped(args.kv.dtype)) {
    HYDRANT_LAUNCH(CombineKernel<true>, grid, kCombineThreads, 0, stream, args, first_single);
  } else {
    HYDRANT_LAUNCH(CombineKernel<false>, grid, kCombineThreads, 0, stream, args, first_single);
  }
}

}  // namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE
