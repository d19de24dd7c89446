#include "kernels/reference/kv_store.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/bfloat16.h"
#include "kernels/check.h"
#include "kernels/quantization.h"

namespace hydrant::kernels {
namespace {

size_t RowBytes(const KvGeometry& geometry) {
  return KvElementBytes(geometry.dtype) * geometry.head_dim;
}

// Key, value, their scales, score and position.
size_t SlotBytes(const KvGeometry& geometry) {
  return 2 * (RowBytes(geometry) + KvScaleBytes(geometry.dtype)) + sizeof(float) + sizeof(int32_t);
}

absl::Status Validate(const KvGeometry& geometry) {
  if (geometry.layers < 1 || geometry.kv_heads < 1 || geometry.head_dim < 1 ||
      geometry.num_blocks < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("KV cache of ", geometry.layers, " layers, ", geometry.kv_heads,
                     " KV heads, head size ", geometry.head_dim, ", ", geometry.num_blocks,
                     " blocks: layers, heads and head size must be at least 1, blocks at least 0"));
  }
  if (!geometry.windows.empty() && geometry.windows.size() != size_t(geometry.layers)) {
    return absl::InvalidArgumentError(absl::StrCat("KV cache of ", geometry.layers, " layers has ",
                                                   geometry.windows.size(), " sliding windows"));
  }
  for (const int32_t window : geometry.windows) {
    if (window < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("sliding window of ", window, " tokens: must be at least 0"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

size_t ReferenceBlockBytes(const KvGeometry& geometry) {
  return SlotBytes(geometry) * kBlockSlots * geometry.layers * geometry.kv_heads;
}

absl::StatusOr<std::unique_ptr<KvStore>> ReferenceKvStore::Create(const KvGeometry& geometry) {
  if (absl::Status status = Validate(geometry); !status.ok()) return status;
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
    : KvStore(geometry), rows_(rows), row_bytes_(RowBytes(geometry)) {}

bool ReferenceKvStore::Allocate() {
  const size_t rows = rows_ + 1;  // never zero bytes, for which calloc may give null
  for (Rows* memory : {&keys_, &values_}) {
    memory->elements.reset(std::calloc(rows, row_bytes_));
    if (memory->elements == nullptr) return false;
    const size_t scale_bytes = KvScaleBytes(geometry().dtype);
    if (scale_bytes == 0) continue;
    memory->scales.reset(static_cast<float*>(std::calloc(rows, scale_bytes)));
    if (memory->scales == nullptr) return false;
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
  for (int d = 0; d < geometry().head_dim; ++d) {
    key[d] = this->key(row, d);
    if (value != nullptr) value[d] = this->value(row, d);
  }
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
  }
  positions_[to] = positions_[from];
  scores_[to] = scores_[from];
}

float ReferenceKvStore::Load(const Rows& rows, size_t row, int dim) const {
  const size_t index = row * geometry().head_dim + dim;
  const void* elements = rows.elements.get();
  switch (geometry().dtype) {
    case KvDType::kF32:
      return static_cast<const float*>(elements)[index];
    case KvDType::kBF16:
      return BF16ToFloat(static_cast<const uint16_t*>(elements)[index]);
    case KvDType::kInt8:
      return static_cast<const int8_t*>(elements)[index] * rows.scales[row];
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
  }
}

}  // namespace hydrant::kernels
