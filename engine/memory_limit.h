// How much memory this process may still take.

#ifndef HYDRANT_ENGINE_MEMORY_LIMIT_H_
#define HYDRANT_ENGINE_MEMORY_LIMIT_H_

#include <cstdint>

namespace hydrant::engine {

// The least of MemAvailable and, for every cgroup (v2 or v1) this process is in, its limit minus
// what it uses; page cache that can be reclaimed counts as free. 0 when nothing can be read.
int64_t AvailableMemoryBytes();

}  // namespace hydrant::engine

#endif  // HYDRANT_ENGINE_MEMORY_LIMIT_H_
