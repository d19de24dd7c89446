// A pass's Batch as kernels read it, and what of it is attended to by whom.

#ifndef HYDRANT_KERNELS_CUDA_DEVICE_BATCH_H_
#define HYDRANT_KERNELS_CUDA_DEVICE_BATCH_H_

#include <cstdint>

#include "kernels/batch.h"
#include "kernels/cuda/namespace.h"

namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE {

// Slots after which attention closes its sums and begins new ones. What a row gets is the same
// however many blocks share out its slots, since all cut them here.
constexpr int kSplitSlots = 256;

struct DeviceSequence {
  int32_t first_row, num_rows, num_slots;
  int32_t blocks;       // index of its first block id
  int32_t holes;        // index of its holes, -1: append
  int32_t keep_scores;  // 0 or 1
  int32_t first_split;  // of its part of the scratch of decode
};

// The query vectors (row, query head of the KV head) from first_query on, as many as a block
// attends for. A sequence's are numbered row * group + head within its group.
struct QueryTile {
  int32_t sequence, first_query;
};

// All in device memory.
struct DeviceBatch {
  const int32_t* positions;        // [rows]
  const int32_t* sequence_of_row;  // [rows]
  const DeviceSequence* sequences;
  const int32_t* blocks;           // of all sequences, one after the other
  const int32_t* holes;            // [sequences with holes][layers][kv_heads]
  const int32_t* singles;          // sequences of one row
  const int32_t* scored_prefills;  // sequences of more than one row that keep scores
  const QueryTile* tiles;          // of the singles, then of the others
};

}  // namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE

#endif  // HYDRANT_KERNELS_CUDA_DEVICE_BATCH_H_
