// UTF-8 as Rust's standard library reads it, since token ids must equal those of a Rust library.

#ifndef HYDRANT_ENGINE_TOKENIZER_UTF8_H_
#define HYDRANT_ENGINE_TOKENIZER_UTF8_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace hydrant::engine {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

// What stands at the beginning of `text` (not empty).
struct Utf8Sequence {
  enum Kind { kCharacter, kInvalid, kUnfinished };
  Kind kind;
  size_t length;       // kInvalid: bytes that one U+FFFD stands for (Unicode, table 3-8)
  char32_t character;  // of kCharacter
};
// kUnfinished: all of `text` is a proper prefix of a character.
Utf8Sequence ReadUtf8(std::string_view text);

bool IsValidUtf8(std::string_view text);

// `text` with each maximal broken part replaced by one U+FFFD.
std::string ToValidUtf8(std::string_view text);

void AppendUtf8(char32_t character, std::string& out);

// Bytes of the character that `lead` begins, in text that is known to be valid.
inline size_t Utf8Length(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

}  // namespace hydrant::engine

#endif  // HYDRANT_ENGINE_TOKENIZER_UTF8_H_
