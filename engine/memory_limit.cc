#include "engine/memory_limit.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>

namespace hydrant::engine {
namespace {

// The first number of a file; nullopt where there is none ("max").
std::optional<int64_t> ReadNumber(const std::string& path) {
  std::ifstream file(path);
  int64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

// The number behind `key` in a file of "key value" lines.
std::optional<int64_t> ReadKey(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  std::string word;
  int64_t value = 0;
  while (file >> word) {
    if (word == key && file >> value) return value;
  }
  return std::nullopt;
}

struct Accounting {
  const char* limit;
  const char* usage;
};

// Walks from `group` up to the root of the hierarchy: every ancestor's limit binds.
void ApplyHierarchy(const std::string& root, std::string group, Accounting files, int64_t* least) {
  while (true) {
    const std::string folder = root + group + "/";
    const auto limit = ReadNumber(folder + files.limit);
    const auto usage = ReadNumber(folder + files.usage);
    if (limit && usage) {
      const int64_t reclaimable = ReadKey(folder + "memory.stat", "inactive_file").value_or(0);
      *least = std::min(*least, std::max<int64_t>(0, *limit - *usage + reclaimable));
    }
    if (group.empty() || group == "/") return;
    group.resize(group.rfind('/'));
  }
}

}  // namespace

int64_t AvailableMemoryBytes() {
  constexpr int64_t kUnknown = INT64_MAX;
  int64_t least = kUnknown;
  if (const auto kib = ReadKey("/proc/meminfo", "MemAvailable:")) least = *kib * 1024;

  // Lines are "id:controllers:path"; cgroup v2 has no controllers there.
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) {
      ApplyHierarchy("/sys/fs/cgroup", group, {"memory.max", "memory.current"}, &least);
    } else if (("," + controllers + ",").find(",memory,") != std::string::npos) {
      ApplyHierarchy("/sys/fs/cgroup/memory", group,
                     {"memory.limit_in_bytes", "memory.usage_in_bytes"}, &least);
    }
  }
  return least == kUnknown ? 0 : least;
}

}  // namespace hydrant::engine
