// Scalars of weight files.

#ifndef HYDRANT_ENGINE_WEIGHTS_HALF_H_
#define HYDRANT_ENGINE_WEIGHTS_HALF_H_

#include <bit>
#include <cstdint>
#include <cstring>

#include "kernels/float16.h"

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

inline float LoadF16(const uint8_t* in) { return kernels::F16ToFloat(LoadU16(in)); }

}  // namespace hydrant::engine::weights

#endif  // HYDRANT_ENGINE_WEIGHTS_HALF_H_
