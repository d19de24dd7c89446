// Random numbers that are the same with every standard library: SplitMix64 (Steele, Lea and Flood,
// "Fast splittable pseudorandom number generators", 2014).

#ifndef HYDRANT_SERVER_BENCH_RANDOM_H_
#define HYDRANT_SERVER_BENCH_RANDOM_H_

#include <cstdint>

namespace hydrant::server::bench {

class Random {
 public:
  // Streams of different numbers are independent.
  Random(uint64_t seed, uint64_t stream) : state_(seed) { state_ = Next() ^ stream; }

  uint64_t Next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  // In [0, limit), limit at most 2^32.
  uint64_t Below(uint64_t limit) { return ((Next() >> 32) * limit) >> 32; }
  // In (0, 1].
  double Unit() { return static_cast<double>((Next() >> 11) + 1) * 0x1p-53; }

 private:
  uint64_t state_;
};

}  // namespace hydrant::server::bench

#endif  // HYDRANT_SERVER_BENCH_RANDOM_H_
