// Philox4x32-10, the counter-based generator of Salmon, Moraes, Dror and Shaw, "Parallel Random
// Numbers: As Easy as 1, 2, 3" (SC 2011): the output is a function of key and counter, so the draw
// for a token needs no state that batching or a preemption could disturb.

#ifndef HYDRANT_ENGINE_PHILOX_H_
#define HYDRANT_ENGINE_PHILOX_H_

#include <array>
#include <cstdint>

namespace hydrant::engine {

constexpr std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter,
                                             std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * counter[0];
    const uint64_t b = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

// The `index`-th uniform number in [0, 1) of the stream `seed`, a multiple of 2^-53.
constexpr double UniformAt(uint64_t seed, uint64_t index) {
  const std::array<uint32_t, 4> r =
      Philox4x32({static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), 0, 0},
                 {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  return static_cast<double>((uint64_t{r[0]} << 32 | r[1]) >> 11) * 0x1p-53;
}

}  // namespace hydrant::engine

#endif  // HYDRANT_ENGINE_PHILOX_H_
