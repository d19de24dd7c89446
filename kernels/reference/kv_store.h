// The oracle's KV memory, as plain as can be: arrays, each [layer][kv_head][block][slot], and for
// keys and values [dim] below that, in the store's dtype, a byte for each of the quantised ones;
// those have an array of scales or ranges beside each.

#ifndef HYDRANT_KERNELS_REFERENCE_KV_STORE_H_
#define HYDRANT_KERNELS_REFERENCE_KV_STORE_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/batch.h"
#include "kernels/group_range.h"
#include "kernels/kv_store.h"

namespace hydrant::kernels {

// Bytes of one block over all layers and heads: keys, values, scores, positions.
size_t ReferenceBlockBytes(const KvGeometry& geometry);

class ReferenceKvStore final : public KvStore {
 public:
  // INVALID_ARGUMENT for an impossible geometry, RESOURCE_EXHAUSTED where the memory is not there.
  static absl::StatusOr<std::unique_ptr<KvStore>> Create(const KvGeometry& geometry);

  // The store behind the interface; aborts when another backend made it.
  static ReferenceKvStore& From(KvStore& kv);

  void Prefault(int32_t first, int32_t count) override;
  int32_t Position(int layer, int head, int64_t slot) const override;
  float Score(int layer, int head, int64_t slot) const override;
  void ReadKeyValue(int layer, int head, int64_t slot, float* key, float* value) const override;

  // The row of arrays for physical slot `slot`; aborts outside the store.
  size_t Row(int layer, int head, int64_t slot) const;
  // The same for slot `slot` of a sequence that holds `blocks`.
  size_t Row(int layer, int head, const int32_t* blocks, int32_t slot) const {
    return Row(layer, head,
               static_cast<int64_t>(blocks[slot / kBlockSlots]) * kBlockSlots + slot % kBlockSlots);
  }

  int32_t& position(size_t row) { return positions_[row]; }
  float& score(size_t row) { return scores_[row]; }
  // Writes [head_dim].
  void LoadKey(size_t row, float* key) const { Load(keys_, row, key); }
  void LoadValue(size_t row, float* value) const { Load(values_, row, value); }
  // key and value are [head_dim]; they are rounded to the store's dtype.
  void Write(size_t row, const float* key, const float* value, int32_t position);
  // Copies key, value, score and position.
  void Move(size_t from, size_t to);

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  // Keys or values.
  struct Rows {
    std::unique_ptr<void, Free> elements;
    std::unique_ptr<float[], Free> scales;       // int8: one a row
    std::unique_ptr<GroupRange[], Free> ranges;  // int4, kivi2: one a group of a row
    int bits = 0;                                // of a number
  };

  ReferenceKvStore(const KvGeometry& geometry, size_t rows);
  bool Allocate();
  void Load(const Rows& rows, size_t row, float* to) const;
  void Store(const float* from, size_t row, Rows& rows);

  const size_t rows_;
  const size_t row_bytes_;  // of one key or value
  Rows keys_, values_;
  std::unique_ptr<float[], Free> scores_;
  std::unique_ptr<int32_t[], Free> positions_;
  std::vector<float> rotated_;  // scratch of Store, [head_dim]
};

}  // namespace hydrant::kernels

#endif  // HYDRANT_KERNELS_REFERENCE_KV_STORE_H_
