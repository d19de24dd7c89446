#include "kernels/cpu/cpu_kv_store.h"

#include <cstring>
#include <utility>

#include "kernels/bfloat16.h"
#include "kernels/check.h"

namespace hydrant::kernels::cpu {
namespace {

// bf16 keeps neighbours along each reduction side by side: of the head for keys, of slots for
// values. The others have nothing to pair.
int64_t PairedDim(const KvGeometry& geometry) {
  return geometry.dtype == KvDType::kBF16 ? (geometry.head_dim + 1) / 2 * 2 : geometry.head_dim;
}

size_t StripBytes(const KvGeometry& geometry, size_t block_bytes) {
  return static_cast<size_t>(geometry.layers) * geometry.kv_heads * geometry.num_blocks *
         block_bytes;
}

}  // namespace

KvLayout::KvLayout(const KvGeometry& geometry)
    : element_bytes(KvElementBytes(geometry.dtype)),
      padded_dim((geometry.head_dim + 15) / 16 * 16),
      scale_offset(PairedDim(geometry) * kBlockSlots * element_bytes),
      value_offset(scale_offset + 2 * kBlockSlots * KvScaleBytes(geometry.dtype)),
      block_bytes(value_offset + padded_dim * kBlockSlots * element_bytes) {}

size_t KvLayout::TotalBlockBytes(const KvGeometry& geometry) const {
  return static_cast<size_t>(geometry.layers) * geometry.kv_heads *
         (block_bytes + kBlockSlots * (sizeof(float) + sizeof(int32_t)));
}

CpuKvStore::CpuKvStore(KvGeometry geometry)
    : KvStore(std::move(geometry)),
      layout_(this->geometry()),
      data_(StripBytes(this->geometry(), layout_.block_bytes)),
      scores_(StripBytes(this->geometry(), kBlockSlots * sizeof(float))),
      positions_(StripBytes(this->geometry(), kBlockSlots * sizeof(int32_t))) {}

void CpuKvStore::Prefault(int32_t first, int32_t count) {
  HYDRANT_CHECK(first >= 0 && count >= 0 && first <= geometry().num_blocks - count);
  for (int layer = 0; layer < geometry().layers; ++layer) {
    for (int head = 0; head < geometry().kv_heads; ++head) {
      MakeResident(blocks(layer, head) + first * layout_.block_bytes, count * layout_.block_bytes);
      const int64_t slot = int64_t{first} * kBlockSlots;
      const size_t bytes = size_t{4} * count * kBlockSlots;
      MakeResident(reinterpret_cast<uint8_t*>(scores(layer, head) + slot), bytes);
      MakeResident(reinterpret_cast<uint8_t*>(positions(layer, head) + slot), bytes);
    }
  }
}

int32_t CpuKvStore::Position(int layer, int head, int64_t slot) const {
  return positions(layer, head)[slot];
}

float CpuKvStore::Score(int layer, int head, int64_t slot) const {
  return scores(layer, head)[slot];
}

size_t CpuKvStore::KeyOffset(int place, int d) const {
  if (geometry().dtype == KvDType::kBF16) {
    return size_t{2} * (d / 2 * 2 * kBlockSlots + place * 2 + d % 2);
  }
  return layout_.element_bytes * (size_t(d) * kBlockSlots + place);
}

size_t CpuKvStore::ValueOffset(int place, int d) const {
  if (geometry().dtype == KvDType::kBF16) {
    return layout_.value_offset + 2 * (place / 2 * 2 * layout_.padded_dim + d * 2 + place % 2);
  }
  return layout_.value_offset + layout_.element_bytes * (place * layout_.padded_dim + d);
}

void CpuKvStore::ReadKeyValue(int layer, int head, int64_t slot, float* key, float* value) const {
  const uint8_t* block = blocks(layer, head) + slot / kBlockSlots * layout_.block_bytes;
  const int place = static_cast<int>(slot % kBlockSlots);
  const auto read_float = [&](size_t offset) {
    float number;
    std::memcpy(&number, block + offset, sizeof(number));
    return number;
  };
  const auto read = [&](size_t offset, float scale) {
    if (geometry().dtype == KvDType::kF32) return read_float(offset);
    if (geometry().dtype == KvDType::kInt8) return static_cast<int8_t>(block[offset]) * scale;
    uint16_t element;
    std::memcpy(&element, block + offset, sizeof(element));
    return BF16ToFloat(element);
  };
  const bool scaled = KvScaleBytes(geometry().dtype) > 0;
  const float key_scale = scaled ? read_float(KeyScaleOffset(place)) : 1.0f;
  const float value_scale = scaled ? read_float(ValueScaleOffset(place)) : 1.0f;
  for (int d = 0; d < geometry().head_dim; ++d) key[d] = read(KeyOffset(place, d), key_scale);
  if (value == nullptr) return;
  for (int d = 0; d < geometry().head_dim; ++d) value[d] = read(ValueOffset(place, d), value_scale);
}

void CpuKvStore::MoveSlot(int layer, int head, int64_t from, int64_t to) {
  uint8_t* base = blocks(layer, head);
  const uint8_t* source = base + from / kBlockSlots * layout_.block_bytes;
  uint8_t* target = base + to / kBlockSlots * layout_.block_bytes;
  const int source_place = static_cast<int>(from % kBlockSlots);
  const int target_place = static_cast<int>(to % kBlockSlots);
  for (int d = 0; d < geometry().head_dim; ++d) {
    std::memcpy(target + KeyOffset(target_place, d), source + KeyOffset(source_place, d),
                layout_.element_bytes);
    std::memcpy(target + ValueOffset(target_place, d), source + ValueOffset(source_place, d),
                layout_.element_bytes);
  }
  if (const size_t bytes = KvScaleBytes(geometry().dtype); bytes > 0) {
    std::memcpy(target + KeyScaleOffset(target_place), source + KeyScaleOffset(source_place),
                bytes);
    std::memcpy(target + ValueScaleOffset(target_place), source + ValueScaleOffset(source_place),
                bytes);
  }
  float* score = scores(layer, head);
  int32_t* position = positions(layer, head);
  score[to] = score[from];
  position[to] = position[from];
}

}  // namespace hydrant::kernels::cpu
