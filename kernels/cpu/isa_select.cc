#include "kernels/cpu/isa_select.h"

#include <cstdlib>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace hydrant::kernels::cpu {
namespace {

struct Isa {
  const KernelTable* table;
  const char* needs;
  bool supported;
};

// Whether the machine has AMX and this process may use it.
bool EnableAmx() {
#if defined(__x86_64__) && defined(__linux__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  constexpr unsigned kNeeded = 1u << 24 | 1u << 25 | 1u << 22;  // tiles, int8, bf16
  if ((d & kNeeded) != kNeeded) return false;
  // Linux hands out the tile registers' state on request (arch_prctl, 5.16).
  constexpr int kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

// All that were built, best first.
std::vector<Isa> BuiltIsas() {
  std::vector<Isa> isas;
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("f16c");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni");
  const bool avx512bf16 = avx512 && __builtin_cpu_supports("avx512bf16");
  isas.push_back(
      {&amx::kTable, "AVX-512 F, BW, VL, DQ, VNNI and AMX INT8 and BF16", avx512 && EnableAmx()});
  isas.push_back({&avx512bf16::kTable, "AVX-512 F, BW, VL, DQ, VNNI and BF16", avx512bf16});
  isas.push_back({&avx512::kTable, "AVX-512 F, BW, VL, DQ and VNNI", avx512});
  // Intel's bf16 dot product takes longer than the two f32 multiply-adds in its place.
  if (__builtin_cpu_is("intel")) std::swap(isas[1], isas[2]);
  isas.push_back({&avx2::kTable, "AVX2, FMA and F16C", avx2});
#endif
  isas.push_back({&portable::kTable, "nothing", true});
  return isas;
}

}  // namespace

std::vector<std::string> SupportedIsas() {
  std::vector<std::string> names;
  for (const Isa& isa : BuiltIsas()) {
    if (isa.supported) names.push_back(isa.table->name);
  }
  return names;
}

absl::StatusOr<const KernelTable*> SelectIsa(std::string_view isa) {
  std::string name(isa);
  std::string source = "instruction set";
  if (name == "auto") {
    const char* wanted = std::getenv("HYDRANT_ISA");
    if (wanted != nullptr && *wanted != '\0') {
      name = wanted;
      source = "HYDRANT_ISA: instruction set";
    }
  }
  std::vector<std::string> known;
  for (const Isa& built : BuiltIsas()) {
    known.push_back(built.table->name);
    if (name == "auto" && built.supported) return built.table;
    if (name != built.table->name) continue;
    if (built.supported) return built.table;
    return absl::InvalidArgumentError(absl::StrCat(source, " \"", name, "\" needs ", built.needs,
                                                   ", which this machine lacks; it has ",
                                                   absl::StrJoin(SupportedIsas(), ", ")));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      source, " \"", name, "\" is unknown; choose auto, ", absl::StrJoin(known, ", ")));
}

}  // namespace hydrant::kernels::cpu
