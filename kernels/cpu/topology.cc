#include "kernels/cpu/topology.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace hydrant::kernels::cpu {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

int AffinityCores() {
  // The kernel refuses a mask smaller than its own, so grow until it fits.
  for (int cpus = 1024; cpus <= 1 << 20; cpus *= 2) {
    cpu_set_t* set = CPU_ALLOC(cpus);
    if (set == nullptr) return 1;
    const size_t bytes = CPU_ALLOC_SIZE(cpus);
    const bool ok = sched_getaffinity(0, bytes, set) == 0;
    const int count = ok ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (ok) return std::max(count, 1);
  }
  return 1;
}

std::optional<double> V1Quota(const std::string& folder) {
  const double quota = std::atof(ReadFile(folder + "/cpu.cfs_quota_us").c_str());
  const double period = std::atof(ReadFile(folder + "/cpu.cfs_period_us").c_str());
  if (quota <= 0 || period <= 0) return std::nullopt;
  return quota / period;
}

// The smallest quota of the control groups on the way from this process's up to the root.
std::optional<double> CgroupQuota() {
  std::optional<double> least;
  const auto tighten = [&least](std::optional<double> quota) {
    if (quota && (!least || *quota < *least)) least = quota;
  };
  std::istringstream lines(ReadFile("/proc/self/cgroup"));
  for (std::string line; std::getline(lines, line);) {  // id:controllers:path
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool v2 = controllers == ",,";
    if (!v2 && controllers.find(",cpu,") == std::string::npos) continue;
    // In a container the path may be the host's and its folder absent: the root is then our own.
    std::string path = line.substr(second + 1);
    while (true) {
      if (v2) {
        tighten(ParseCpuMax(ReadFile("/sys/fs/cgroup" + path + "/cpu.max")));
      } else {
        tighten(V1Quota("/sys/fs/cgroup/cpu" + path));
      }
      const size_t slash = path.rfind('/');
      if (path.empty() || slash == std::string::npos) break;
      path.resize(slash);
    }
  }
  return least;
}

}  // namespace

std::optional<double> ParseCpuMax(std::string_view text) {
  std::istringstream fields{std::string(text)};
  double quota = 0, period = 0;
  if (!(fields >> quota >> period) || quota <= 0 || period <= 0) return std::nullopt;
  return quota / period;
}

int UsableCores() {
  int cores = AffinityCores();
  if (const std::optional<double> quota = CgroupQuota()) {
    cores = std::min(cores, std::max(1, static_cast<int>(std::lround(*quota))));
  }
  return cores;
}

}  // namespace hydrant::kernels::cpu
