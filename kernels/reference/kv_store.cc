#include "kernels/reference/kv_store.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/bfloat16.h"
#include "kernels/check.h"
#include "kernels/quantization.h"
#include "kernels/shapes.h"

namespace hydrant::kernels {
namespace {

// Of one key or value, without scales.
size_t RowBytes(const KvGeometry& geometry) {
  return KvIsGrouped(geometry.dtype) ? geometry.head_dim
                                     : size_t(geometry.head_dim) * KvBitsOf(geometry.dtype).key / 8;
}

// Of the scales or ranges of one key or value.
size_t ScaleBytes(const KvGeometry& geometry) {
  if (KvIsGrouped(geometry.dtype)) return KvGroups(geometry.head_dim) * sizeof(GroupRange);
  return geometry.dtype == KvDType::kInt8 ? sizeof(float) : 0;
}

// Key, value, their scales, score and position.
size_t SlotBytes(const KvGeometry& geometry) {
  return 2 * (RowBytes(geometry) + ScaleBytes(geometry)) + sizeof(float) + sizeof(int32_t);
}

}  // namespace

size_t ReferenceBlockBytes(const KvGeometry& geometry) {
  return SlotBytes(geometry) * kBlockSlots * geometry.layers * geometry.kv_heads;
}

absl::StatusOr<std::unique_ptr<KvStore>> ReferenceKvStore::Create(const KvGeometry& geometry) {
  if (absl::Status status = CheckGeometry(geometry); !status.ok()) return status;
  const double bytes = 1.0 * geometry.layers * geometry.kv_heads * geometry.num_blocks *
                       kBlockSlots * static_cast<double>(SlotBytes(geometry));
  const absl::Status too_large = absl::ResourceExhaustedError(
      absl::StrCat("KV cache of ", geometry.num_blocks, " blocks needs ", bytes, " bytes"));
  if (bytes > static_cast<double>(std::numeric_limits<int64_t>::max() / 2)) return too_large;
  const size_t rows =
      size_t{1} * geometry.layers * geometry.kv_heads * geometry.num_blocks * kBlockSlots;
  std::unique_ptr<ReferenceKvStore> store(new ReferenceKvStore(geometry, rows));
  if (!store->Allocate()) return too_large;
  return store;
}

ReferenceKvStore::ReferenceKvStore(const KvGeometry& geometry, size_t rows)
    : KvStore(geometry), rows_(rows), row_bytes_(RowBytes(geometry)), rotated_(geometry.head_dim) {
  keys_.bits = KvBitsOf(geometry.dtype).key;
  values_.bits = KvBitsOf(geometry.dtype).value;
}

bool ReferenceKvStore::Allocate() {
  const size_t rows = rows_ + 1;  // never zero bytes, for which calloc may give null
  for (Rows* memory : {&keys_, &values_}) {
    memory->elements.reset(std::calloc(rows, row_bytes_));
    if (memory->elements == nullptr) return false;
    const size_t scale_bytes = ScaleBytes(geometry());
    if (scale_bytes == 0) continue;
    void* scales = std::calloc(rows, scale_bytes);
    if (scales == nullptr) return false;
    if (KvIsGrouped(geometry().dtype)) {
      memory->ranges.reset(static_cast<GroupRange*>(scales));
    } else {
      memory->scales.reset(static_cast<float*>(scales));
    }
  }
  scores_.reset(static_cast<float*>(std::calloc(rows, sizeof(float))));
  positions_.reset(static_cast<int32_t*>(std::calloc(rows, sizeof(int32_t))));
  return scores_ != nullptr && positions_ != nullptr;
}

ReferenceKvStore& ReferenceKvStore::From(KvStore& kv) {
  auto* store = dynamic_cast<ReferenceKvStore*>(&kv);
  HYDRANT_CHECK(store != nullptr);
  return *store;
}

// Pages appear when they are first written; the oracle is in no hurry.
void ReferenceKvStore::Prefault(int32_t first, int32_t count) {
  HYDRANT_CHECK(first >= 0 && count >= 0 && first <= geometry().num_blocks - count);
}

int32_t ReferenceKvStore::Position(int layer, int head, int64_t slot) const {
  return positions_[Row(layer, head, slot)];
}

float ReferenceKvStore::Score(int layer, int head, int64_t slot) const {
  return scores_[Row(layer, head, slot)];
}

void ReferenceKvStore::ReadKeyValue(int layer, int head, int64_t slot, float* key,
                                    float* value) const {
  const size_t row = Row(layer, head, slot);
  LoadKey(row, key);
  if (value != nullptr) LoadValue(row, value);
}

size_t ReferenceKvStore::Row(int layer, int head, int64_t slot) const {
  const int64_t slots = static_cast<int64_t>(geometry().num_blocks) * kBlockSlots;
  HYDRANT_CHECK(layer >= 0 && layer < geometry().layers);
  HYDRANT_CHECK(head >= 0 && head < geometry().kv_heads);
  HYDRANT_CHECK(slot >= 0 && slot < slots);
  return (static_cast<size_t>(layer) * geometry().kv_heads + head) * slots + slot;
}

void ReferenceKvStore::Write(size_t row, const float* key, const float* value, int32_t position) {
  Store(key, row, keys_);
  Store(value, row, values_);
  positions_[row] = position;
  scores_[row] = 0.0f;
}

void ReferenceKvStore::Move(size_t from, size_t to) {
  for (Rows* rows : {&keys_, &values_}) {
    char* bytes = static_cast<char*>(rows->elements.get());
    std::memcpy(bytes + to * row_bytes_, bytes + from * row_bytes_, row_bytes_);
    if (rows->scales != nullptr) rows->scales[to] = rows->scales[from];
    if (rows->ranges != nullptr) {
      const size_t groups = KvGroups(geometry().head_dim);
      std::copy_n(&rows->ranges[from * groups], groups, &rows->ranges[to * groups]);
    }
  }
  positions_[to] = positions_[from];
  scores_[to] = scores_[from];
}

void ReferenceKvStore::Load(const Rows& rows, size_t row, float* to) const {
  const int head_dim = geometry().head_dim;
  const char* from = static_cast<const char*>(rows.elements.get()) + row * row_bytes_;
  switch (geometry().dtype) {
    case KvDType::kF32:
      std::memcpy(to, from, row_bytes_);
      return;
    case KvDType::kBF16:
      std::transform(reinterpret_cast<const uint16_t*>(from),
                     reinterpret_cast<const uint16_t*>(from) + head_dim, to, BF16ToFloat);
      return;
    case KvDType::kInt8:
      for (int d = 0; d < head_dim; ++d) to[d] = static_cast<int8_t>(from[d]) * rows.scales[row];
      return;
    case KvDType::kInt4:
    case KvDType::kKivi2: {
      const GroupRange* ranges = &rows.ranges[row * KvGroups(head_dim)];
      for (int d = 0; d < head_dim; ++d) {
        const GroupRange& range = ranges[d / kKvGroupChannels];
        to[d] = RangeNumber(range.zero) + static_cast<uint8_t>(from[d]) * RangeNumber(range.scale);
      }
      HadamardRotate(to, head_dim);  // its own inverse
      return;
    }
  }
  HYDRANT_CHECK(false);
}

void ReferenceKvStore::Store(const float* from, size_t row, Rows& rows) {
  const int head_dim = geometry().head_dim;
  void* to = static_cast<char*>(rows.elements.get()) + row * row_bytes_;
  switch (geometry().dtype) {
    case KvDType::kF32:
      std::copy(from, from + head_dim, static_cast<float*>(to));
      return;
    case KvDType::kBF16:
      std::transform(from, from + head_dim, static_cast<uint16_t*>(to), FloatToBF16);
      return;
    case KvDType::kInt8:
      rows.scales[row] = QuantizeInt8(from, head_dim, static_cast<int8_t*>(to));
      return;
    case KvDType::kInt4:
    case KvDType::kKivi2:
      std::copy(from, from + head_dim, rotated_.begin());
      HadamardRotate(rotated_.data(), head_dim);
      QuantizeGroups(rotated_.data(), head_dim, kKvGroupChannels, rows.bits,
                     static_cast<uint8_t*>(to), &rows.ranges[row * KvGroups(head_dim)]);
      return;
  }
}

}  // namespace hydrant::kernels
