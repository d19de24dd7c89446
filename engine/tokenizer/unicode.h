// What Unicode says of characters: case, categories and the normal forms (UAX #15).

#ifndef HYDRANT_ENGINE_TOKENIZER_UNICODE_H_
#define HYDRANT_ENGINE_TOKENIZER_UNICODE_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace hydrant::engine {

// Appends the lower-case (upper-case) form, one to three characters.
void AppendLowerCase(char32_t character, std::string& out);
void AppendUpperCase(char32_t character, std::string& out);

// General categories, in groups of their first letter.
// clang-format off
enum class Category : uint8_t {
  kLu, kLl, kLt, kLm, kLo,                  // letters
  kMn, kMc, kMe,                            // marks
  kNd, kNl, kNo,                            // numbers
  kPc, kPd, kPs, kPe, kPi, kPf, kPo,        // punctuation
  kSm, kSc, kSk, kSo,                       // symbols
  kZs, kZl, kZp,                            // separators
  kCc, kCf, kCs, kCo, kCn,                  // others
};
// clang-format on
Category CategoryOf(char32_t character);

inline bool IsLetter(Category c) { return c <= Category::kLo; }
inline bool IsPunctuation(Category c) { return c >= Category::kPc && c <= Category::kPo; }
inline bool IsSeparator(Category c) { return c >= Category::kZs && c <= Category::kZp; }
inline bool IsOther(Category c) { return c >= Category::kCc; }

// What Hugging Face's components hold a character to be, each by its own version of Unicode.
enum Trait : uint8_t {
  kMark = 1,         // of StripAccents: M
  kControl = 2,      // of BertNormalizer: taken out of a clean text
  kAccent = 4,       // of BertNormalizer: Mn
  kPunctuation = 8,  // of Punctuation and BertPreTokenizer: P, and the symbols of ASCII
  kNumeric = 16,     // of Digits: N
  kWord = 32,        // of Whitespace: letters, marks, digits and what joins them
};
bool HasTrait(char32_t character, Trait trait);
// Ranges of all characters with a trait, as the inside of a regular expression's class.
std::string ClassOfTrait(Trait trait);

// Ranges of the characters that have a property in the regular expressions of Hugging Face's
// library and that Unicode 14, PCRE2's in Debian 12, does not know, as the inside of a class.
// `property`: a general category or its first letter, a script, Alphabetic ...;
// "Assigned": all of them; "NotOther": those outside of C.
std::string NewerMembers(std::string_view property);

// A number for each script, as UnicodeScripts tells them apart; 0 goes with every one.
uint8_t ScriptOf(char32_t character);

// The property White_Space.
bool IsWhiteSpace(char32_t character);

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };
// `text` must be valid UTF-8.
std::string ToNormalForm(std::string_view text, NormalForm form);

}  // namespace hydrant::engine

#endif  // HYDRANT_ENGINE_TOKENIZER_UNICODE_H_
