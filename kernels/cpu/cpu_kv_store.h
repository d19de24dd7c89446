// The KV cache of the CPU backend. Each layer and KV head has its blocks in one strip, so the
// blocks of a sequence that were handed out together are read as one run. Within a block keys come
// before their scales, then values and their scales, in the layout of isa/attention.h. Scores and
// positions lie in arrays beside, one entry a slot. Address space is taken at once, memory when
// blocks are first used or prefaulted.

#ifndef HYDRANT_KERNELS_CPU_CPU_KV_STORE_H_
#define HYDRANT_KERNELS_CPU_CPU_KV_STORE_H_

#include <cstddef>
#include <cstdint>

#include "kernels/batch.h"
#include "kernels/cpu/isa/kernel_table.h"
#include "kernels/cpu/memory.h"
#include "kernels/kv_store.h"

namespace hydrant::kernels::cpu {

// Bytes of one block's keys and values of one layer and head.
struct KvLayout {
  explicit KvLayout(const KvGeometry& geometry);
  int64_t padded_dim;       // head_dim rounded up to 16
  size_t key_slot_bytes;    // of one slot's key, and
  size_t value_slot_bytes;  // of its value, each with what pads it
  size_t key_scale_bytes;   // of one slot's scales or ranges, 0 where the dtype has none
  size_t value_scale_bytes;
  BlockOffsets at;
  size_t block_bytes;

  // Where in a block a slot has its bytes: `count` units of `unit` bytes, `stride` apart.
  struct Part {
    size_t begin, unit, stride, count;
    // Of byte `index` of the slot's.
    size_t Offset(size_t index) const { return begin + index / unit * stride + index % unit; }
  };
  struct Parts {
    Part key, key_scales, value, value_scales;
  };
  Parts PartsOf(KvDType dtype, int place) const;

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

  // The numbers of a key or value; level(byte_at, d) gives the level of channel d.
  template <typename Level>
  void ReadNumbers(const uint8_t* block, const KvLayout::Part& part, const KvLayout::Part& scales,
                   const Level& level, float* to) const;

  KvLayout layout_;
  Region data_, scores_, positions_;
};

}  // namespace hydrant::kernels::cpu

#endif  // HYDRANT_KERNELS_CPU_CPU_KV_STORE_H_
