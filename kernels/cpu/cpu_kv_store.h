// The KV cache of the CPU backend. Each layer and KV head has its blocks in one strip, so the
// blocks of a sequence that were handed out together are read as one run. Within a block keys come
// before scales before values, in the layout of isa/attention.h. Scores and positions lie in arrays
// beside, one entry a slot. Address space is taken at once, memory when blocks are first used or
// prefaulted.

#ifndef HYDRANT_KERNELS_CPU_CPU_KV_STORE_H_
#define HYDRANT_KERNELS_CPU_CPU_KV_STORE_H_

#include <cstddef>
#include <cstdint>

#include "kernels/batch.h"
#include "kernels/cpu/memory.h"
#include "kernels/kv_store.h"

namespace hydrant::kernels::cpu {

// Bytes of one block's keys and values of one layer and head.
struct KvLayout {
  explicit KvLayout(const KvGeometry& geometry);
  size_t element_bytes;
  int64_t padded_dim;   // head_dim rounded up to 16, as values are stored
  size_t scale_offset;  // of the scales in a block, where the dtype has any
  size_t value_offset;  // of the values in a block
  size_t block_bytes;
  // All layers and heads, with scores and positions.
  size_t TotalBlockBytes(const KvGeometry& geometry) const;
};

class CpuKvStore : public KvStore {
 public:
  explicit CpuKvStore(KvGeometry geometry);

  void Prefault(int32_t first, int32_t count) override;
  int32_t Position(int layer, int head, int64_t slot) const override;
  float Score(int layer, int head, int64_t slot) const override;
  void ReadKeyValue(int layer, int head, int64_t slot, float* key, float* value) const override;

  const KvLayout& layout() const { return layout_; }
  // The blocks of a layer and head; their scores and positions, by physical slot.
  uint8_t* blocks(int layer, int head) const {
    return data_.data() + Strip(layer, head) * geometry().num_blocks * layout_.block_bytes;
  }
  float* scores(int layer, int head) const {
    return reinterpret_cast<float*>(scores_.data()) + SlotBase(layer, head);
  }
  int32_t* positions(int layer, int head) const {
    return reinterpret_cast<int32_t*>(positions_.data()) + SlotBase(layer, head);
  }
  // Copies one physical slot over another: key, value, score and position.
  void MoveSlot(int layer, int head, int64_t from, int64_t to);

 private:
  int64_t Strip(int layer, int head) const {
    return static_cast<int64_t>(layer) * geometry().kv_heads + head;
  }
  int64_t SlotBase(int layer, int head) const {
    return Strip(layer, head) * geometry().num_blocks * kBlockSlots;
  }
  // Byte offsets in a block of element d of the key and the value at `place`.
  size_t KeyOffset(int place, int d) const;
  size_t ValueOffset(int place, int d) const;
  // Of the scales of the key and of the value at `place`; int8 only.
  size_t KeyScaleOffset(int place) const { return layout_.scale_offset + 4 * size_t(place); }
  size_t ValueScaleOffset(int place) const { return KeyScaleOffset(kBlockSlots + place); }

  KvLayout layout_;
  Region data_, scores_, positions_;
};

}  // namespace hydrant::kernels::cpu

#endif  // HYDRANT_KERNELS_CPU_CPU_KV_STORE_H_
