// Time that other work on the machine does not count in.

#ifndef HYDRANT_TESTS_BENCH_PROCESSOR_TIME_H_
#define HYDRANT_TESTS_BENCH_PROCESSOR_TIME_H_

#include <time.h>

namespace hydrant::bench {

// Of CLOCK_THREAD_CPUTIME_ID or CLOCK_PROCESS_CPUTIME_ID.
inline double ProcessorSeconds(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace hydrant::bench

#endif  // HYDRANT_TESTS_BENCH_PROCESSOR_TIME_H_
