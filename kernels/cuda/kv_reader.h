// Reading the KV cache in a kernel, number by number; see kv_view.h for how it lies.

#ifndef HYDRANT_KERNELS_CUDA_KV_READER_H_
#define HYDRANT_KERNELS_CUDA_KV_READER_H_

#include <cstdint>

#include "kernels/cuda/kv_view.h"
#include "kernels/cuda/numbers.h"

namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE {

__device__ inline uint8_t* BlockOf(const KvView& kv, int head, int64_t slot) {
  return kv.blocks +
         (static_cast<int64_t>(head) * kv.num_blocks + slot / kBlockSlots) * kv.block_bytes;
}
__device__ inline int64_t EntryOf(const KvView& kv, int head, int64_t slot) {
  return static_cast<int64_t>(head) * kv.num_blocks * kBlockSlots + slot;
}

constexpr int KeyBits(KvDType dtype) { return dtype == KvDType::kInt4 ? 6 : 4; }
constexpr int ValueBits(KvDType dtype) { return dtype == KvDType::kInt4 ? 4 : 2; }

// The level of channel d.
template <int kBits>
__device__ int Level(const uint8_t* row, int groups, int d) {
  int level = 0;
  if constexpr (kBits >= 4) level = row[d / 2] >> (d % 2 * 4) & 15;
  if constexpr (kBits % 4 == 2) {
    const uint8_t* pairs = row + (kBits >= 4 ? groups * kKvGroupChannels / 2 : 0);
    level |= (pairs[d / 4] >> (d % 4 * 2) & 3) << (kBits >= 4 ? 4 : 0);
  }
  return level;
}

// Channel d of a stored row, in the rotated space of the grouped dtypes.
template <KvDType kDType, int kBits>
__device__ float LoadNumber(const uint8_t* row, const uint8_t* scales, int groups, int d) {
  if constexpr (kDType == KvDType::kF32) return reinterpret_cast<const float*>(row)[d];
  if constexpr (kDType == KvDType::kBF16) {
    return BF16ToFloat(reinterpret_cast<const uint16_t*>(row)[d]);
  }
  if constexpr (kDType == KvDType::kInt8) {
    return static_cast<float>(reinterpret_cast<const int8_t*>(row)[d]) *
           *reinterpret_cast<const float*>(scales);
  }
  if constexpr (KvIsGrouped(kDType)) {
    const uint32_t range = reinterpret_cast<const uint32_t*>(scales)[d / kKvGroupChannels];
    const float scale = __uint_as_float(range << 16), zero = __uint_as_float(range & 0xffff0000u);
    return zero + static_cast<float>(Level<kBits>(row, groups, d)) * scale;
  }
}

// Reads one side of a slot, channel by channel.
template <KvDType kDType, bool kKey>
struct KvReader {
  __device__ KvReader(const KvView& kv, int head, int64_t slot) : groups(KvGroups(kv.head_dim)) {
    const KvSide& side = kKey ? kv.key : kv.value;
    const uint8_t* block = BlockOf(kv, head, slot);
    const int place = static_cast<int>(slot % kBlockSlots);
    row = block + side.rows + place * side.row_bytes;
    scales = block + side.scales + place * side.scale_bytes;
  }
  __device__ float operator[](int d) const {
    return LoadNumber < kDType,
           kKey ? KeyBits(kDType) : ValueBits(kDType) > (row, scales, groups, d);
  }
  const uint8_t* row;
  const uint8_t* scales;
  int groups;
};

}  // namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE

#endif  // HYDRANT_KERNELS_CUDA_KV_READER_H_
