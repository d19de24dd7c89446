#include "engine/tokenizer/byte_trie.h"

#include <algorithm>
#include <cstddef>

namespace hydrant::engine {
namespace {

constexpr int32_t kManyChildren = 6;

}  // namespace

ByteTrie::ByteTrie(std::vector<std::pair<std::string_view, int32_t>> entries) : ByteTrie() {
  std::stable_sort(entries.begin(), entries.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  // Breadth first, so that the children of a node are neighbours.
  struct Range {
    size_t begin, end, depth;
  };
  std::vector<Range> ranges = {{0, entries.size(), 0}};
  for (size_t at = 0; at < ranges.size(); ++at) {
    Range range = ranges[at];
    for (; range.begin < range.end && entries[range.begin].first.size() == range.depth;
         ++range.begin) {
      nodes_[at].value = entries[range.begin].second;
    }
    nodes_[at].first_child = static_cast<int32_t>(nodes_.size());
    for (size_t begin = range.begin; begin < range.end;) {
      const char byte = entries[begin].first[range.depth];
      size_t end = begin;
      while (end < range.end && entries[end].first[range.depth] == byte) ++end;
      ranges.push_back({begin, end, range.depth + 1});
      nodes_.emplace_back();
      bytes_.push_back(static_cast<uint8_t>(byte));
      begin = end;
    }
    Node& node = nodes_[at];
    node.count = static_cast<int32_t>(nodes_.size()) - node.first_child;
    if (node.count < kManyChildren) continue;
    node.table = static_cast<int32_t>(tables_.size());
    tables_.emplace_back().fill(kNone);
    for (int32_t i = 0; i < node.count; ++i) {
      tables_.back()[bytes_[node.first_child + i]] = node.first_child + i;
    }
  }
}

}  // namespace hydrant::engine
