// Jinja source to tokens, with the whitespace rules that Hugging Face renders chat templates under
// (trim_blocks, lstrip_blocks, no trailing newline): Jinja's lexer.py.

#ifndef HYDRANT_ENGINE_CHAT_LEXER_H_
#define HYDRANT_ENGINE_CHAT_LEXER_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace hydrant::engine::chat {

struct Token {
  enum Kind {
    kText,         // outside of tags
    kBlockBegin,   // {%
    kBlockEnd,     // %}
    kOutputBegin,  // {{
    kOutputEnd,    // }}
    kName,
    kNumber,
    kString,    // `text` is its value
    kOperator,  // one of == != and single punctuation characters
    kEnd,       // of the template
  };
  Kind kind;
  std::string text;

  bool Is(Kind k, std::string_view t) const { return kind == k && text == t; }
};

// The last token is kEnd. UNIMPLEMENTED or INVALID_ARGUMENT says what was not understood.
absl::StatusOr<std::vector<Token>> Tokenize(std::string_view source);

}  // namespace hydrant::engine::chat

#endif  // HYDRANT_ENGINE_CHAT_LEXER_H_
