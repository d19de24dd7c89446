// HYDRANT_CHECK(condition): a broken invariant ends the process with file and line. For what the
// outside can cause, return a Status instead.

#ifndef HYDRANT_KERNELS_CHECK_H_
#define HYDRANT_KERNELS_CHECK_H_

#include <cstdio>
#include <cstdlib>

#define HYDRANT_CHECK(condition)                                                             \
  do {                                                                                       \
    if (!(condition)) [[unlikely]] {                                                         \
      std::fprintf(stderr, "%s:%d: invariant broken: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                          \
    }                                                                                        \
  } while (false)

#endif  // HYDRANT_KERNELS_CHECK_H_
