// Strings by their bytes, for finding all that a text begins with.

#ifndef HYDRANT_ENGINE_TOKENIZER_BYTE_TRIE_H_
#define HYDRANT_ENGINE_TOKENIZER_BYTE_TRIE_H_

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace hydrant::engine {

class ByteTrie {
 public:
  static constexpr int32_t kRoot = 0;
  static constexpr int32_t kNone = -1;

  ByteTrie() : nodes_(1), bytes_(1) {}
  // Strings with their values (not negative). Of equal strings the last one counts.
  explicit ByteTrie(std::vector<std::pair<std::string_view, int32_t>> entries);

  // The node after `byte`; kNone where no string goes on with it.
  int32_t Child(int32_t node, uint8_t byte) const {
    const Node& from = nodes_[node];
    if (from.table != kNone) return tables_[from.table][byte];
    for (int32_t i = 0; i < from.count; ++i) {
      if (bytes_[from.first_child + i] == byte) return from.first_child + i;
    }
    return kNone;
  }
  // Of the string that ends here; kNone where none does.
  int32_t ValueAt(int32_t node) const { return nodes_[node].value; }

 private:
  struct Node {
    int32_t first_child = 0;  // children are neighbours
    int32_t count = 0;
    int32_t value = kNone;
    int32_t table = kNone;  // into tables_, where there are many children
  };

  std::vector<Node> nodes_;
  std::vector<uint8_t> bytes_;  // that lead to each node
  std::vector<std::array<int32_t, 256>> tables_;
};

}  // namespace hydrant::engine

#endif  // HYDRANT_ENGINE_TOKENIZER_BYTE_TRIE_H_
