#ifndef HYDRANT_KERNELS_CPU_ROUND_UP_H_
#define HYDRANT_KERNELS_CPU_ROUND_UP_H_

#include <cstdint>

namespace hydrant::kernels::cpu {

// The next multiple of `to`; value >= 0, to > 0.
inline int64_t RoundUp(int64_t value, int64_t to) { return (value + to - 1) / to * to; }

}  // namespace hydrant::kernels::cpu

#endif  // HYDRANT_KERNELS_CPU_ROUND_UP_H_
