// bfloat16: the upper half of an IEEE float. Converted by rounding to nearest, ties to even, as the
// AVX512-BF16 instructions and PyTorch do; infinities stay, NaN stays NaN (quiet). Unlike those
// instructions, subnormal values are kept.

#ifndef HYDRANT_KERNELS_BFLOAT16_H_
#define HYDRANT_KERNELS_BFLOAT16_H_

#include <bit>
#include <cstdint>

namespace hydrant::kernels {

inline uint16_t FloatToBF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

inline float BF16ToFloat(uint16_t value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value) << 16);
}

inline float RoundToBF16(float value) { return BF16ToFloat(FloatToBF16(value)); }

}  // namespace hydrant::kernels

#endif  // HYDRANT_KERNELS_BFLOAT16_H_
