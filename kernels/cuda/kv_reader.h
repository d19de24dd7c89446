// Reading the KV cache in a kernel, a few numbers at a time; see kv_view.h for how it lies.

#ifndef HYDRANT_KERNELS_CUDA_KV_READER_H_
#define HYDRANT_KERNELS_CUDA_KV_READER_H_

#include <cstdint>

#include "kernels/cuda/kv_view.h"
#include "kernels/cuda/numbers.h"

namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE {

// A KV head's blocks.
__device__ inline uint8_t* StripOf(const KvView& kv, int head) {
  return kv.blocks + static_cast<int64_t>(head) * kv.num_blocks * kv.block_bytes;
}
__device__ inline uint8_t* BlockOf(const KvView& kv, int head, int64_t slot) {
  return StripOf(kv, head) + slot / kBlockSlots * kv.block_bytes;
}
__device__ inline int64_t EntryOf(const KvView& kv, int head, int64_t slot) {
  return static_cast<int64_t>(head) * kv.num_blocks * kBlockSlots + slot;
}

constexpr int KeyBits(KvDType dtype) { return dtype == KvDType::kInt4 ? 6 : 4; }
constexpr int ValueBits(KvDType dtype) { return dtype == KvDType::kInt4 ? 4 : 2; }

// Channels that are read at a time, beginning at a multiple of it. Rows are padded to it.
constexpr int kReadChannels = 8;

// The levels of channels d, d + 1, ...
template <int kBits>
__device__ void LoadLevels(const uint8_t* row, int groups, int d, float (&to)[kReadChannels]) {
  uint32_t nibbles = 0, pairs = 0;
  if constexpr (kBits >= 4) nibbles = *reinterpret_cast<const uint32_t*>(row + d / 2);
  if constexpr (kBits % 4 == 2) {
    const int plane = kBits >= 4 ? groups * kKvGroupChannels / 2 : 0;
    pairs = *reinterpret_cast<const uint16_t*>(row + plane + d / 4);
  }
#pragma unroll
  for (int i = 0; i < kReadChannels; ++i) {
    const uint32_t low = kBits >= 4 ? nibbles >> (4 * i) & 15 : 0;
    const uint32_t pair = pairs >> (2 * i) & 3;
    to[i] = static_cast<float>(low | pair << (kBits >= 4 ? 4 : 0));
  }
}

// Channels d, d + 1, ... of a stored row, int8 before its scale, in the rotated space of the
// grouped dtypes; those beyond the head are anything.
template <KvDType kDType, int kBits>
__device__ void LoadNumbers(const uint8_t* row, const uint8_t* scales, int groups, int d,
                            float (&to)[kReadChannels]) {
  if constexpr (kDType == KvDType::kF32) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float4 numbers = reinterpret_cast<const float4*>(row)[d / 4 + half];
      to[4 * half] = numbers.x;
      to[4 * half + 1] = numbers.y;
      to[4 * half + 2] = numbers.z;
      to[4 * half + 3] = numbers.w;
    }
  }
  if constexpr (kDType == KvDType::kBF16) {
    const uint4 words = reinterpret_cast<const uint4*>(row)[d / 8];
    const uint32_t pairs[] = {words.x, words.y, words.z, words.w};
#pragma unroll
    for (int i = 0; i < kReadChannels; ++i) {
      to[i] = __uint_as_float(i % 2 == 0 ? pairs[i / 2] << 16 : pairs[i / 2] & 0xffff0000u);
    }
  }
  if constexpr (kDType == KvDType::kInt8) {
    const uint2 words = reinterpret_cast<const uint2*>(row)[d / 8];
#pragma unroll
    for (int i = 0; i < kReadChannels; ++i) {
      const uint32_t word = i < 4 ? words.x : words.y;
      to[i] = static_cast<float>(static_cast<int8_t>(word >> (i % 4 * 8)));
    }
  }
  if constexpr (KvIsGrouped(kDType)) {
    const uint32_t range = reinterpret_cast<const uint32_t*>(scales)[d / kKvGroupChannels];
    const float scale = __uint_as_float(range << 16), zero = __uint_as_float(range & 0xffff0000u);
    LoadLevels<kBits>(row, groups, d, to);
#pragma unroll
    for (int i = 0; i < kReadChannels; ++i) to[i] = zero + to[i] * scale;
  }
}

// Reads one side of a slot: the numbers that Load gives times Scale.
template <KvDType kDType, bool kKey>
struct KvReader {
  __device__ KvReader(const KvView& kv, const uint8_t* strip, int32_t block, int place)
      : groups(KvGroups(kv.head_dim)) {
    const KvSide& side = kKey ? kv.key : kv.value;
    const uint8_t* const at = strip + static_cast<int64_t>(block) * kv.block_bytes;
    row = at + (side.rows + place * side.row_bytes);
    scales = at + (side.scales + place * side.scale_bytes);
  }
  __device__ void Load(int d, float (&to)[kReadChannels]) const {
    LoadNumbers<kDType, kKey ? KeyBits(kDType) : ValueBits(kDType)>(row, scales, groups, d, to);
  }
  __device__ float Scale() const {
    return kDType == KvDType::kInt8 ? *reinterpret_cast<const float*>(scales) : 1.0f;
  }
  const uint8_t* row;
  const uint8_t* scales;
  int groups;
};

}  // namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE

#endif  // HYDRANT_KERNELS_CUDA_KV_READER_H_
