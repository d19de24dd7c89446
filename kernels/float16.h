// IEEE half precision as stored numbers: five bits of exponent, ten of mantissa.

#ifndef HYDRANT_KERNELS_FLOAT16_H_
#define HYDRANT_KERNELS_FLOAT16_H_

#include <bit>
#include <cstdint>

namespace hydrant::kernels {

// Exact for every f16, without a branch, so that loops over it vectorise on any ISA.
inline float F16ToFloat(uint16_t half) {
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

// The nearest f16, ties to even; infinity from 65,520 on, NaN stays NaN.
inline uint16_t FloatToF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  uint32_t half;
  if (magnitude > 0x7f800000u) {
    half = 0x7e00u;
  } else if (magnitude >= 0x477ff000u) {
    half = 0x7c00u;
  } else if (magnitude < 0x38800000u) {
    // Subnormal: the sum with 0.5 has a last place of 2^-24, as they have.
    half = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  } else {
    half = ((magnitude + 0xfffu + (magnitude >> 13 & 1u)) >> 13) - (112u << 10);
  }
  return static_cast<uint16_t>(sign | half);
}

inline bool IsFiniteF16(uint16_t half) { return (half & 0x7c00u) != 0x7c00u; }

}  // namespace hydrant::kernels

#endif  // HYDRANT_KERNELS_FLOAT16_H_
