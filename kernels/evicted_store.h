// The one door through which evicted keys and values leave the KV cache. Backend::Evict and
// Backend::Compact hand each outgoing slot to the store that its EvictionItem names; where none is
// named, nothing is read and nothing is paid.
//
// An audit takes keys (engine/audit.h); a cold tier would take values too.

#ifndef HYDRANT_KERNELS_EVICTED_STORE_H_
#define HYDRANT_KERNELS_EVICTED_STORE_H_

#include <cstdint>

#include "kernels/batch.h"
#include "kernels/kv_store.h"

namespace hydrant::kernels {

class EvictedStore {
 public:
  virtual ~EvictedStore() = default;

  // False: Take gets null values, and they are not read.
  virtual bool takes_values() const = 0;

  // One slot that `layer` and KV head `head` give up: the token's position, and its rotated key and
  // its value as attention saw them ([head_dim] f32 in host memory, valid during the call).
  //
  // Evict gives each layer and head one slot, Compact its num_slots - budget; `index` counts them
  // from 0 within the call of Evict or Compact, in the order of their slots. Each layer and head is
  // given from one thread at a time, in ascending order of `index`, but different ones from several
  // threads at once. All calls are over when Evict or Compact returns.
  virtual void Take(int layer, int head, int32_t index, int32_t position, const float* key,
                    const float* value) = 0;
};

// Hands slot `slot` of the item's sequence to item.evicted, which is not null. `row` is scratch for
// 2 * head_dim floats. One slot at a time: for backends that have no better way.
void HandOver(const EvictionItem& item, int layer, int head, int32_t index, int32_t slot,
              const KvStore& kv, float* row);

}  // namespace hydrant::kernels

#endif  // HYDRANT_KERNELS_EVICTED_STORE_H_
