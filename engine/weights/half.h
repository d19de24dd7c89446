// Scalars of weight files.

#ifndef HYDRANT_ENGINE_WEIGHTS_HALF_H_
#define HYDRANT_ENGINE_WEIGHTS_HALF_H_

#include <bit>
#include <cstdint>
#include <cstring>

namespace hydrant::engine::weights {

static_assert(std::endian::native == std::endian::little, "weights are read as little-endian");

// Any alignment.
inline uint16_t LoadU16(const uint8_t* in) {
  uint16_t value;
  std::memcpy(&value, in, sizeof(value));
  return value;
}

inline uint32_t LoadU32(const uint8_t* in) {
  uint32_t value;
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

inline float LoadF16(const uint8_t* in) { return F16ToF32(LoadU16(in)); }

}  // namespace hydrant::engine::weights

#endif  // HYDRANT_ENGINE_WEIGHTS_HALF_H_
