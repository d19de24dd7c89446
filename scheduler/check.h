// HYDRANT_CHECK(condition): a broken invariant ends the process with file and line. For .cc files
// of this folder only; kernels/ has its own, since the two do not include each other.

#ifndef HYDRANT_SCHEDULER_CHECK_H_
#define HYDRANT_SCHEDULER_CHECK_H_

#include <cstdio>
#include <cstdlib>

#define HYDRANT_CHECK(condition)                                                             \
  do {                                                                                       \
    if (!(condition)) [[unlikely]] {                                                         \
      std::fprintf(stderr, "%s:%d: invariant broken: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                          \
    }                                                                                        \
  } while (false)

#endif  // HYDRANT_SCHEDULER_CHECK_H_
