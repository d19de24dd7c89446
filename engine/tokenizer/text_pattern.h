// "pattern" of Hugging Face's Split and Replace: a string or a regular expression; and the ways to
// cut a text at its matches.

#ifndef HYDRANT_ENGINE_TOKENIZER_TEXT_PATTERN_H_
#define HYDRANT_ENGINE_TOKENIZER_TEXT_PATTERN_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/tokenizer/json_node.h"
#include "engine/tokenizer/regex.h"

namespace hydrant::engine {

struct TextRange {
  size_t begin;
  size_t end;
};

class TextPattern {
 public:
  static TextPattern Literal(std::string text);
  static absl::StatusOr<TextPattern> Regexp(std::string_view pattern);
  // {"String": "..."} or {"Regex": "..."}.
  static absl::StatusOr<TextPattern> FromJson(const JsonNode& json);

  // From left to right, none overlapping.
  std::vector<TextRange> FindAll(std::string_view text) const;
  std::string ReplaceAll(std::string_view text, std::string_view with) const;

 private:
  explicit TextPattern(std::variant<std::string, Regex> pattern);
  std::variant<std::string, Regex> pattern_;
};

enum class SplitBehavior {
  kRemoved,             // matches are dropped
  kIsolated,            // each match is a piece
  kMergedWithPrevious,  // a match ends the piece before it
  kMergedWithNext,      // a match begins the piece after it
  kContiguous,          // matches side by side are one piece
};
absl::StatusOr<SplitBehavior> SplitBehaviorFromJson(const JsonNode& json, std::string_view key);

// The pieces, none empty, of a text of `size` bytes in which `matches` were found. `invert`: what
// lies between the matches counts as matching, and the other way round.
std::vector<TextRange> SplitAtMatches(size_t size, const std::vector<TextRange>& matches,
                                      SplitBehavior behavior, bool invert);

}  // namespace hydrant::engine

#endif  // HYDRANT_ENGINE_TOKENIZER_TEXT_PATTERN_H_
