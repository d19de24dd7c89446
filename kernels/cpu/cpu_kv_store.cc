#include "kernels/cpu/cpu_kv_store.h"

#include <cstring>
#include <iterator>
#include <utility>

#include "kernels/bfloat16.h"
#include "kernels/check.h"
#include "kernels/cpu/isa/grouped.h"
#include "kernels/cpu/round_up.h"
#include "kernels/quantization.h"

namespace hydrant::kernels::cpu {

static_assert(kKvGroup == kKvGroupChannels);
static_assert(kKvDTypeCount == std::size(kKvDTypes));

namespace {

// How many neighbours along each reduction lie side by side, as products of them are added at once:
// of the head for keys, of slots for values.
int Neighbours(KvDType dtype) {
  return dtype == KvDType::kBF16 ? 2 : dtype == KvDType::kInt8 ? 4 : 1;
}

size_t StripBytes(const KvGeometry& geometry, size_t block_bytes) {
  return static_cast<size_t>(geometry.layers) * geometry.kv_heads * geometry.num_blocks *
         block_bytes;
}

}  // namespace

KvLayout::KvLayout(const KvGeometry& geometry) : padded_dim(RoundUp(geometry.head_dim, 16)) {
  const KvBits bits = KvBitsOf(geometry.dtype);
  if (KvIsGrouped(geometry.dtype)) {
    key_slot_bytes = KeySlotBytes(geometry.head_dim, bits.key);
    value_slot_bytes = ValueSlotBytes(geometry.head_dim, bits.value);
    key_scale_bytes = value_scale_bytes = KvGroups(geometry.head_dim) * sizeof(GroupRange);
  } else {
    key_slot_bytes = RoundUp(geometry.head_dim, Neighbours(geometry.dtype)) * bits.key / 8;
    value_slot_bytes = padded_dim * bits.value / 8;
    key_scale_bytes = value_scale_bytes = geometry.dtype == KvDType::kInt8 ? sizeof(float) : 0;
  }
  at.key_scales = key_slot_bytes * kBlockSlots;
  at.values = at.key_scales + key_scale_bytes * kBlockSlots;
  at.value_scales = at.values + value_slot_bytes * kBlockSlots;
  block_bytes = at.value_scales + value_scale_bytes * kBlockSlots;
}

KvLayout::Parts KvLayout::PartsOf(KvDType dtype, int place) const {
  // Keys are a row of every slot's unit after the other, so are ranges; values are a slot's own.
  const size_t key_unit = KvIsGrouped(dtype) ? 1 : 4;
  const size_t scale_unit = KvIsGrouped(dtype) ? sizeof(uint16_t) : sizeof(float);
  const auto interleaved = [&](size_t begin, size_t unit, size_t bytes) {
    return Part{begin + place * unit, unit, kBlockSlots * unit, bytes / unit};
  };
  const auto own = [&](size_t begin, size_t bytes) {
    return Part{begin + place * bytes, bytes, bytes, bytes > 0 ? size_t{1} : 0};
  };
  Parts parts = {.key = interleaved(0, key_unit, key_slot_bytes),
                 .key_scales = interleaved(at.key_scales, scale_unit, key_scale_bytes),
                 .value = own(at.values, value_slot_bytes),
                 .value_scales = own(at.value_scales, value_scale_bytes)};
  if (const size_t n = Neighbours(dtype); n > 1) {
    const size_t bytes = 4 / n;  // of a number
    parts.value = {at.values + place / n * n * value_slot_bytes + place % n * bytes, bytes, 4,
                   value_slot_bytes / bytes};
  }
  return parts;
}

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

void CpuKvStore::ReadKeyValue(int layer, int head, int64_t slot, float* key, float* value) const {
  const uint8_t* block = blocks(layer, head) + slot / kBlockSlots * layout_.block_bytes;
  const KvBits bits = KvBitsOf(geometry().dtype);
  const KvLayout::Parts parts =
      layout_.PartsOf(geometry().dtype, static_cast<int>(slot % kBlockSlots));
  const auto key_level = [&](const auto& byte_at, int d) { return KeyLevel(byte_at, d, bits.key); };
  const auto value_level = [&](const auto& byte_at, int d) {
    return ValueLevel(byte_at, d, bits.value);
  };
  ReadNumbers(block, parts.key, parts.key_scales, key_level, key);
  if (value != nullptr) {
    ReadNumbers(block, parts.value, parts.value_scales, value_level, value);
  }
}

template <typename Level>
void CpuKvStore::ReadNumbers(const uint8_t* block, const KvLayout::Part& part,
                             const KvLayout::Part& scales, const Level& level, float* to) const {
  // Numbers do not straddle the units of a part.
  const auto read = [&](auto number, const KvLayout::Part& from, size_t index) {
    std::memcpy(&number, block + from.Offset(index * sizeof(number)), sizeof(number));
    return number;
  };
  const auto byte_at = [&](int index) { return block[part.Offset(index)]; };
  const int head_dim = geometry().head_dim;
  for (int d = 0; d < head_dim; ++d) {
    switch (geometry().dtype) {
      case KvDType::kF32:
        to[d] = read(float{}, part, d);
        break;
      case KvDType::kBF16:
        to[d] = BF16ToFloat(read(uint16_t{}, part, d));
        break;
      case KvDType::kInt8:
        to[d] = read(int8_t{}, part, d) * read(float{}, scales, 0);
        break;
      case KvDType::kInt4:
      case KvDType::kKivi2: {
        const size_t group = d / kKvGroupChannels;
        const float scale = RangeNumber(read(uint16_t{}, scales, 2 * group));
        const float zero = RangeNumber(read(uint16_t{}, scales, 2 * group + 1));
        to[d] = zero + static_cast<float>(level(byte_at, d)) * scale;
        break;
      }
    }
  }
  if (KvIsGrouped(geometry().dtype)) HadamardRotate(to, head_dim);  // its own inverse
}

void CpuKvStore::MoveSlot(int layer, int head, int64_t from, int64_t to) {
  uint8_t* base = blocks(layer, head);
  const uint8_t* source = base + from / kBlockSlots * layout_.block_bytes;
  uint8_t* target = base + to / kBlockSlots * layout_.block_bytes;
  const KvLayout::Parts source_parts =
      layout_.PartsOf(geometry().dtype, static_cast<int>(from % kBlockSlots));
  const KvLayout::Parts target_parts =
      layout_.PartsOf(geometry().dtype, static_cast<int>(to % kBlockSlots));
  for (const auto part : {&KvLayout::Parts::key, &KvLayout::Parts::key_scales,
                          &KvLayout::Parts::value, &KvLayout::Parts::value_scales}) {
    const KvLayout::Part& s = source_parts.*part;
    const KvLayout::Part& t = target_parts.*part;
    for (size_t i = 0; i < s.count; ++i) {
      std::memcpy(target + t.begin + i * t.stride, source + s.begin + i * s.stride, s.unit);
    }
  }
  float* score = scores(layer, head);
  int32_t* position = positions(layer, head);
  score[to] = score[from];
  position[to] = position[from];
}

}  // namespace hydrant::kernels::cpu
