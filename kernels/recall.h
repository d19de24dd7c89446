// Recall: how much of the attention of the same history's full cache still falls on what is held.
// For one query, with the sums over keys that it may see,
//
//   recall = sum over held of exp(q.k) / sum over held and evicted of exp(q.k)
//
// Attention has the first sum at hand; the second takes the evicted keys, kept in host memory in
// the layout below. They are bf16, and so are the queries that multiply them, whatever the dtype of
// the KV cache: as exact as a bf16 cache, at half the memory of f32. Sums are f32.

#ifndef HYDRANT_KERNELS_RECALL_H_
#define HYDRANT_KERNELS_RECALL_H_

#include <cstddef>
#include <cstdint>

namespace hydrant::kernels {

// Evicted keys of one sequence, and where Backend::Attention writes what it measures. Keys lie in
// blocks of kBlockSlots; in each block every layer and KV head has a strip, that of layer l and
// head h at (l * kv_heads + h) * EvictedStripBytes(head_dim).
struct RecallAudit {
  const uint8_t* const* blocks = nullptr;  // ceil(count / kBlockSlots), 64-byte aligned
  int32_t count = 0;                       // keys of each layer and KV head, at least 1
  float* recall = nullptr;                 // [layers, heads]: query heads
};

// A strip holds kBlockSlots keys as [ceil(head_dim / 2)][kBlockSlots][2] bf16 (an odd head_dim is
// padded with 0), then their positions, [kBlockSlots] i32. A multiple of 64 bytes.
size_t EvictedStripBytes(int head_dim);
void WriteEvictedKey(uint8_t* strip, int head_dim, int place, const float* key, int32_t position);
// Also gives the position.
int32_t ReadEvictedKey(const uint8_t* strip, int head_dim, int place, float* key);

// A sum of exponentials: sum * exp(largest). No terms: sum 0.
struct ExpSum {
  float largest = 0.0f;
  float sum = 0.0f;
};
// The sum over an audit's evicted keys of strip `strip` (layer * kv_heads + head) that a query at
// `position` sees, with `scale` times the dot product. `key` is scratch for head_dim floats. For
// backends without a faster way.
ExpSum SumEvicted(const RecallAudit& audit, int strip, int head_dim, int32_t position,
                  int32_t window, float scale, const float* query, float* key);
// 1 where nothing was evicted. `held` has a term.
float RecallOf(const ExpSum& held, const ExpSum& evicted);

}  // namespace hydrant::kernels

#endif  // HYDRANT_KERNELS_RECALL_H_
