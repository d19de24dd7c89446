// Choosing victims and compacting, a block for each KV head of a layer. Slots are ranked by a key
// of 64 bits, the first to go lowest, and no two are alike:
//   class (2 bits)  0 passed by the window, 1 candidate, 2 protected
//   score (31 bits) a candidate's, a float that is not negative ordered as the integer of its bits;
//                   NaN counts as 0
//   position (31 bits)

#ifndef HYDRANT_KERNELS_CUDA_EVICTION_H_
#define HYDRANT_KERNELS_CUDA_EVICTION_H_

#include "kernels/cuda/kv_view.h"
#include "kernels/eviction_policy.h"

namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE {

// EvictionItem as kernels read it.
struct DeviceItem {
  EvictionPolicy policy;
  int32_t num_slots, newest_position;
  int32_t blocks;  // index of its first block id
};

// Pointers are device memory; `layers` are the views of all layers. victims[item][layer][kv_head]
// is a slot of the item's sequence.
void LaunchEvict(const KvView* layers, int layer_count, int kv_heads, const DeviceItem* items,
                 int count, const int32_t* blocks, int32_t* victims, cudaStream_t stream);

// Lists of one item, [kv_heads][num_slots]: the slots that go, in order, then those that stay
// beyond the budget, in order.
void LaunchSelect(const KvView& kv, const DeviceItem* item, const int32_t* blocks, int32_t* lists,
                  cudaStream_t stream);
// Moves what stays beyond the budget into the first slots that go.
void LaunchMove(const KvView& kv, const DeviceItem* item, const int32_t* blocks,
                const int32_t* lists, cudaStream_t stream);

}  // namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE

#endif  // HYDRANT_KERNELS_CUDA_EVICTION_H_
