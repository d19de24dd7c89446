// Which instruction set to run on.

#ifndef HYDRANT_KERNELS_CPU_ISA_SELECT_H_
#define HYDRANT_KERNELS_CPU_ISA_SELECT_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/cpu/isa/kernel_table.h"

namespace hydrant::kernels::cpu {

// Names of what this machine can run, best first; "portable" is always among them.
std::vector<std::string> SupportedIsas();

// `isa` is "auto" or a name. For "auto" the environment variable HYDRANT_ISA, when set, decides;
// else the best. INVALID_ARGUMENT for a name that is unknown or that this machine lacks.
absl::StatusOr<const KernelTable*> SelectIsa(std::string_view isa);

}  // namespace hydrant::kernels::cpu

#endif  // HYDRANT_KERNELS_CPU_ISA_SELECT_H_
