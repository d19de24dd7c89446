// The scale and zero of a group of quantised numbers. For every instruction set alike: no standard
// header, nothing with external linkage (see cpu/isa/simd.h).

#ifndef HYDRANT_KERNELS_GROUP_RANGE_H_
#define HYDRANT_KERNELS_GROUP_RANGE_H_

#include <stdint.h>

namespace hydrant::kernels {

// A level stands for zero + level * scale. Both are bf16, the upper half of an f32.
struct GroupRange {
  uint16_t scale = 0;
  uint16_t zero = 0;
};

static constexpr inline float RangeNumber(uint16_t bf16) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(bf16) << 16);
}

// Levels 0 to max_level cover all from `smallest` to `largest`:
//   zero   `smallest`, rounded down to bf16
//   scale  (largest - zero) * (1 / max_level), in f32, rounded up to bf16
static constexpr inline GroupRange MakeGroupRange(float smallest, float largest, float max_level) {
  const uint32_t low = __builtin_bit_cast(uint32_t, smallest);
  const bool away_from_zero = (low >> 31) != 0 && (low & 0xffff) != 0;
  GroupRange range;
  range.zero = static_cast<uint16_t>((low >> 16) + (away_from_zero ? 1 : 0));
  const float scale = (largest - RangeNumber(range.zero)) * (1.0f / max_level);
  range.scale = static_cast<uint16_t>((__builtin_bit_cast(uint32_t, scale) + 0xffff) >> 16);
  return range;
}

}  // namespace hydrant::kernels

#endif  // HYDRANT_KERNELS_GROUP_RANGE_H_
