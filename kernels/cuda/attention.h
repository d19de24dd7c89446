// Attention over the paged KV cache, for prompts and decode alike, and the scores of H2O.
//
// A block goes through slots in tiles, as FlashAttention-2 does (Dao, 2023): logits by tensor
// cores, weights in registers, weighted values by tensor cores, while the next tiles are on their
// way to shared memory. A weight is 2^(logit / ln 2 - e) with a whole number e, the largest
// exponent so far, so that going over to another e is exact (barring underflow): sums over slots
// depend on the order in which slots are added, which is fixed, and hardly on where a maximum was
// met. Slots are added in order within kSplitSlots, and these parts in order. In decode many blocks
// share out the parts of a row and CombineKernel adds them up; in a prompt one block goes through
// them; both give the same bits, since one kernel computes both.
//
// Scores: decode keeps its logits until the sums are known. A prompt writes exponent and sum of
// each row and head, and then ScoreKernel, which goes through the rows for each slot, computes the
// same weights once more ("key-stationary").

#ifndef HYDRANT_KERNELS_CUDA_ATTENTION_H_
#define HYDRANT_KERNELS_CUDA_ATTENTION_H_

#include "kernels/cuda/device_batch.h"
#include "kernels/cuda/kv_view.h"

namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE {

constexpr int kWarpQueries = 16;  // rows of a tensor core's tile
constexpr int kDecodeQueries = kWarpQueries;

// The head size that kernels are compiled for: rows are padded to it with zeros.
constexpr int KernelDim(int head_dim) {
  for (const int dim : {32, 64, 96, 128}) {
    if (head_dim <= dim) return dim;
  }
  return kMaxHeadDim;
}
// Warps of a block, 16 queries each, as shared memory allows.
constexpr int PrefillWarps(KvDType dtype, int head_dim) {
  if (dtype == KvDType::kBF16 || KernelDim(head_dim) < kMaxHeadDim) return 4;
  return dtype == KvDType::kF32 ? 1 : 2;
}
constexpr int PrefillQueries(KvDType dtype, int head_dim) {
  return PrefillWarps(dtype, head_dim) * kWarpQueries;
}

constexpr int SplitsOf(int64_t slots) {
  return static_cast<int>((slots + kSplitSlots - 1) / kSplitSlots);
}

// What one block of one pass attends with.
struct AttentionArgs {
  DeviceBatch batch;
  KvView kv;
  const float* qkv;  // [rows, (heads + 2 kv_heads) * head_dim], rotated
  float* out;        // [rows, heads * head_dim]
  int heads, group;  // group: heads / kv_heads
  float scale;       // of q.k, times log2(e)
  float* sums;       // [rows, heads, 2]: exponent and sum of the row's weights
  float* parts;      // [splits, heads, head_dim + 2]: exponent, sum, outputs; decode
  float* logits;     // [splits, heads, kSplitSlots] in base 2; decode
};

// Calls launch with KernelDim(head_dim) as a constant.
template <typename Launch>
void WithDim(int head_dim, const Launch& launch) {
  switch (KernelDim(head_dim)) {
    case 32:
      return launch.template operator()<32>();
    case 64:
      return launch.template operator()<64>();
    case 96:
      return launch.template operator()<96>();
    case 128:
      return launch.template operator()<128>();
    default:
      return launch.template operator()<kMaxHeadDim>();
  }
}

// Sequences of one row: tiles of kDecodeQueries [first_tile, first_tile + tiles), which are those
// of singles [first_single, first_single + singles); none has more than max_splits.
void LaunchDecode(const AttentionArgs& args, int first_tile, int tiles, int first_single,
                  int singles, int max_splits, cudaStream_t stream);
// The second half of LaunchDecode: adds up the parts, and writes outputs and scores.
void LaunchCombine(const AttentionArgs& args, int first_single, int singles, cudaStream_t stream);
// Sequences of several rows: tiles of PrefillQueries; without scores.
void LaunchPrefill(const AttentionArgs& args, int first_tile, int tiles, cudaStream_t stream);
// Adds to the scores what LaunchPrefill has attended to. None of the sequences has more slots.
void LaunchPrefillScores(const AttentionArgs& args, int sequences, int max_slots,
                         cudaStream_t stream);

}  // namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE

#endif  // HYDRANT_KERNELS_CUDA_ATTENTION_H_
