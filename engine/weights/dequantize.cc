#include "engine/weights/dequantize.h"

#include <bit>
#include <cstring>

namespace hydrant::engine::weights {
namespace {

static_assert(std::endian::native == std::endian::little, "weights are read as little-endian");

constexpr int kBlock = 32;

inline uint16_t LoadU16(const uint8_t* in) {
  uint16_t value;
  std::memcpy(&value, in, sizeof(value));
  return value;
}

// Exact for every f16, without a branch, so that loops over it vectorise on any ISA.
inline float F16ToF32(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t magnitude = half & 0x7fffu;
  // The exponent's bias grows from 15 to 127, and once more by as much for infinity and NaN.
  const uint32_t normal =
      (magnitude << 13) + 0x38000000u + (magnitude >= 0x7c00u ? 0x38000000u : 0u);
  // A subnormal is mantissa * 2^-24: put it below 0.5 and take the 0.5 away.
  const uint32_t subnormal =
      std::bit_cast<uint32_t>(std::bit_cast<float>(0x3f000000u | magnitude) - 0.5f);
  return std::bit_cast<float>(sign | (magnitude < 0x0400u ? subnormal : normal));
}

}  // namespace

void DequantizeF32(const uint8_t* in, int64_t n, float* out) {
  std::memcpy(out, in, static_cast<size_t>(n) * sizeof(float));
}

void DequantizeF16(const uint8_t* in, int64_t n, float* __restrict out) {
  for (int64_t i = 0; i < n; ++i) out[i] = F16ToF32(LoadU16(in + 2 * i));
}

void DequantizeBf16(const uint8_t* in, int64_t n, float* __restrict out) {
  for (int64_t i = 0; i < n; ++i) {
    out[i] = std::bit_cast<float>(static_cast<uint32_t>(LoadU16(in + 2 * i)) << 16);
  }
}

void DequantizeQ8_0(const uint8_t* in, int64_t n, float* __restrict out) {
  for (int64_t i = 0; i < n; i += kBlock, in += 2 + kBlock, out += kBlock) {
    const float d = F16ToF32(LoadU16(in));
    for (int j = 0; j < kBlock; ++j)
      out[j] = d * static_cast<float>(static_cast<int8_t>(in[2 + j]));
  }
}

void DequantizeQ4_0(const uint8_t* in, int64_t n, float* __restrict out) {
  for (int64_t i = 0; i < n; i += kBlock, in += 2 + kBlock / 2, out += kBlock) {
    const float d = F16ToF32(LoadU16(in));
    for (int j = 0; j < kBlock / 2; ++j) {
      out[j] = d * static_cast<float>((in[2 + j] & 15) - 8);
      out[j + kBlock / 2] = d * static_cast<float>((in[2 + j] >> 4) - 8);
    }
  }
}

void DequantizeQ4_1(const uint8_t* in, int64_t n, float* __restrict out) {
  for (int64_t i = 0; i < n; i += kBlock, in += 4 + kBlock / 2, out += kBlock) {
    const float d = F16ToF32(LoadU16(in));
    const float m = F16ToF32(LoadU16(in + 2));
    for (int j = 0; j < kBlock / 2; ++j) {
      out[j] = d * static_cast<float>(in[4 + j] & 15) + m;
      out[j + kBlock / 2] = d * static_cast<float>(in[4 + j] >> 4) + m;
    }
  }
}

}  // namespace hydrant::engine::weights
