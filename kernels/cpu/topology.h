// How much of the machine this process may use.

#ifndef HYDRANT_KERNELS_CPU_TOPOLOGY_H_
#define HYDRANT_KERNELS_CPU_TOPOLOGY_H_

#include <optional>
#include <string_view>

namespace hydrant::kernels::cpu {

// Cores that this process may keep busy, at least 1: those of its affinity mask, and no more than
// the CPU quota of its control groups (v1 or v2, ancestors included), rounded to the nearest core.
int UsableCores();

// The quota in cores of cgroup v2's cpu.max ("200000 100000", "max 100000"); nothing when unlimited
// or not understood.
std::optional<double> ParseCpuMax(std::string_view text);

}  // namespace hydrant::kernels::cpu

#endif  // HYDRANT_KERNELS_CPU_TOPOLOGY_H_
