// One forward pass's worth of rows: decode tokens and prefill chunks of many sequences together.
// Plain structs of host memory, filled by the engine and read by every backend.

#ifndef HYDRANT_KERNELS_BATCH_H_
#define HYDRANT_KERNELS_BATCH_H_

#include <cstdint>
#include <vector>

#include "kernels/eviction_policy.h"

namespace hydrant::kernels {

class EvictedStore;
struct RecallAudit;

// Slots in a block: the allocation unit of the KV cache.
inline constexpr int kBlockSlots = 16;

// One sequence's consecutive rows of a batch.
//
// Slots are numbered within the sequence: slot s lies in block `blocks[s / kBlockSlots]`, at place
// s % kBlockSlots. Rows are stored either at the end (`holes == nullptr`: row i of num_rows goes to
// slot num_slots - num_rows + i, in every layer and head) or, for a sequence that evicts in decode
// (num_rows == 1), at holes[layer * kv_heads + head], the slot of that head's last victim.
//
// Attention of row i runs over the slots whose stored position is <= that of the row. For rows that
// are appended this is: every slot before the row's own, and its own; so slot order may be used in
// place of positions there.
struct BatchSequence {
  int32_t first_row = 0;
  int32_t num_rows = 0;
  int32_t first_position = 0;  // position of the first row; the others follow by one
  int32_t num_slots = 0;       // slots held once this pass's rows are stored: the attention length
  const int32_t* blocks = nullptr;  // ceil(num_slots / kBlockSlots) block ids
  const int32_t* holes = nullptr;   // [layers, kv_heads] slots, or null: append
  bool keep_scores = false;         // add this pass's attention to the slots' scores
  // Measures the recall of this pass (num_rows == 1), see recall.h; null: not audited.
  const RecallAudit* audit = nullptr;
};

struct Batch {
  std::vector<int32_t> token_ids;  // [rows]
  std::vector<int32_t> positions;  // [rows]
  std::vector<BatchSequence> sequences;
  std::vector<int32_t> logit_rows;  // rows whose next-token logits are wanted, ascending

  int num_rows() const { return static_cast<int>(token_ids.size()); }
};

// A sequence that gives up slots. `num_slots` are held; `newest_position` is the highest position
// stored, so the next token's is newest_position + 1.
struct EvictionItem {
  EvictionPolicy policy;
  int32_t num_slots = 0;
  int32_t newest_position = 0;
  const int32_t* blocks = nullptr;
  int32_t* holes = nullptr;         // [layers, kv_heads]; written by Evict, unused by Compact
  EvictedStore* evicted = nullptr;  // is handed what goes, see evicted_store.h; null: nobody is
};

}  // namespace hydrant::kernels

#endif  // HYDRANT_KERNELS_BATCH_H_
