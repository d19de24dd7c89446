// Attention over the paged KV cache, for prompts and decode alike, and the scores of H2O.
//
// A weight is 2^(logit / ln 2 - e) with a whole number e, the largest exponent so far, so that
// going over to another e is exact (barring underflow): sums over slots depend on the order in
// which slots are added, which is fixed, and not on where a maximum was met. Slots are added in
// order within kSplitSlots, and these parts in order. In decode many blocks share out the parts of
// a row and CombineKernel adds them up; in a prompt one block goes through them; both give the same
// bits.
//
// Scores: decode keeps its logits until the sums are known. A prompt writes exponent and sum of
// each row and head, and then ScoreKernel, which goes through the rows for each slot, computes the
// same weights once more ("key-stationary").

#ifndef HYDRANT_KERNELS_CUDA_ATTENTION_H_
#define HYDRANT_KERNELS_CUDA_ATTENTION_H_

#include "kernels/cuda/device_batch.h"
#include "kernels/cuda/kv_view.h"

namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE {

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

// Sequences of one row: tiles [first_tile, first_tile + tiles), which are those of singles
// [first_single, first_single + singles); none has more than max_splits.
void LaunchDecode(const AttentionArgs& args, int first_tile, int tiles, int first_single,
                  int singles, int max_splits, cudaStream_t stream);
// Sequences of several rows, without scores.
void LaunchPrefill(const AttentionArgs& args, int first_tile, int tiles, cudaStream_t stream);
// Adds to the scores what LaunchPrefill has attended to. None of the sequences has more slots.
void LaunchPrefillScores(const AttentionArgs& args, int sequences, int max_slots,
                         cudaStream_t stream);

}  // namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE

#endif  // HYDRANT_KERNELS_CUDA_ATTENTION_H_
