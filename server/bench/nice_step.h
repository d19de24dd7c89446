#ifndef HYDRANT_SERVER_BENCH_NICE_STEP_H_
#define HYDRANT_SERVER_BENCH_NICE_STEP_H_

#include <cmath>

namespace hydrant::server::bench {

// 1, 2 or 5 times a power of ten: the first that is at least `least`, which is above 0.
inline double NiceStep(double least) {
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least) return factor * power;
  }
  return 10 * power;
}

}  // namespace hydrant::server::bench

#endif  // HYDRANT_SERVER_BENCH_NICE_STEP_H_
