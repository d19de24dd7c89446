// Jinja source to tokens, with the whitespace rules that Hugging Face renders chat templates under
// (trim_blocks, lstrip_blocks, no trailing newline): Jinja's lexer.py.

#ifndef HYDRANT_ENGINE_CHAT_LEXER_H_
#define HYDRANT_ENGINE_CHAT_LEXER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace hydrant::engine::chat {

// Where something stands in the template, counted from 1; columns in characters.
struct Position {
  int line = 1;
  int column = 1;
};

// "chat template, line 3, column 7: WHAT".
absl::Status ErrorAt(absl::StatusCode code, Position position, std::string_view what);

struct Token {
  enum Kind {
    kText,         // outside of tags
    kBlockBegin,   // {%
    kBlockEnd,     // %}
    kOutputBegin,  // {{
    kOutputEnd,    // }}
    kName,
    kInteger,
    kFloat,
    kString,    // `text` is its value
    kOperator,  // of one or two characters
    kEnd,       // of the template
  };
  Kind kind;
  std::string text;
  Position position;
  int64_t integer = 0;
  double number = 0;

  bool Is(Kind k, std::string_view t) const { return kind == k && text == t; }
};

// The last token is kEnd. INVALID_ARGUMENT says what is malformed.
absl::StatusOr<std::vector<Token>> Tokenize(std::string_view source);

}  // namespace hydrant::engine::chat

#endif  // HYDRANT_ENGINE_CHAT_LEXER_H_
