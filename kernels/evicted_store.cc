#include "kernels/evicted_store.h"

namespace hydrant::kernels {

void HandOver(const EvictionItem& item, int layer, int head, int32_t index, int32_t slot,
              const KvStore& kv, float* row) {
  const int64_t at = int64_t{item.blocks[slot / kBlockSlots]} * kBlockSlots + slot % kBlockSlots;
  float* value = item.evicted->takes_values() ? row + kv.geometry().head_dim : nullptr;
  kv.ReadKeyValue(layer, head, at, row, value);
  item.evicted->Take(layer, head, index, kv.Position(layer, head, at), row, value);
}

}  // namespace hydrant::kernels
