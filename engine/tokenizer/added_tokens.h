// Tokens that are found in a text before anything else is done with it (Hugging Face's
// "added_tokens", GGUF's control and user-defined tokens).

#ifndef HYDRANT_ENGINE_TOKENIZER_ADDED_TOKENS_H_
#define HYDRANT_ENGINE_TOKENIZER_ADDED_TOKENS_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/tokenizer/json_node.h"
#include "engine/tokenizer/regex.h"

namespace hydrant::engine {

struct AddedToken {
  int32_t id = 0;
  std::string content;  // not empty
  bool special = false;
  bool normalized = false;   // looked for after normalisation, in its normalised form
  bool single_word = false;  // not as a part of a word
  bool lstrip = false;       // takes white space before it along
  bool rstrip = false;       // and after it

  static absl::StatusOr<AddedToken> FromJson(const JsonNode& json);
};

// Finds the tokens of one list, of those that begin at the same place the longest.
class AddedTokenFinder {
 public:
  // `patterns[i]` is what `tokens[i]` looks like in the texts to come; empty ones are never found.
  static absl::StatusOr<AddedTokenFinder> Create(std::vector<AddedToken> tokens,
                                                 const std::vector<std::string>& patterns);

  struct Part {
    std::string_view text;
    std::optional<int32_t> id;  // of the token that this part is
  };
  // `text` in order, no part empty; white space that a token takes along belongs to its part.
  std::vector<Part> Split(std::string_view text) const;

 private:
  struct Node {
    uint8_t byte = 0;
    int32_t first_child = 0;  // 0: none
    int32_t next_sibling = 0;
    int32_t token = -1;  // index into tokens_, of the one that ends here
  };
  struct Match {
    size_t end = 0;
    int32_t token = -1;
  };

  AddedTokenFinder(std::vector<AddedToken> tokens, Regex word_character);
  void Insert(std::string_view pattern, int32_t token);
  int32_t Child(int32_t node, uint8_t byte) const;
  Match LongestAt(std::string_view text, size_t begin) const;
  // Whether neither the character before `begin` nor the one at `end` is one of a word.
  bool IsSingleWord(std::string_view text, size_t begin, size_t end) const;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_ = {Node{}};         // a trie; 0 is its root
  std::array<int32_t, 256> first_nodes_ = {};  // the root's children by their byte
  Regex word_character_;
};

}  // namespace hydrant::engine

#endif  // HYDRANT_ENGINE_TOKENIZER_ADDED_TOKENS_H_
