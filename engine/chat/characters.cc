#include "engine/chat/characters.h"

#include "engine/tokenizer/unicode.h"
#include "engine/tokenizer/utf8.h"

namespace hydrant::engine::chat {

bool IsPrintable(char32_t character) {
  if (character < 0x7F) return character >= 0x20;
  const Category category = CategoryOf(character);
  return !IsOther(category) && !IsSeparator(category);
}

bool IsSpace(char32_t c) { return IsWhiteSpace(c) || (c >= 0x1C && c <= 0x1F); }

size_t CountCharacters(std::string_view text) {
  size_t count = 0;
  for (const char byte : text) count += (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
  return count;
}

size_t OffsetOfCharacter(std::string_view text, size_t index) {
  size_t at = 0;
  while (index > 0 && at < text.size()) {
    at += Utf8Length(text[at]);
    --index;
  }
  return at;
}

std::u32string Characters(std::string_view text) {
  std::u32string characters;
  while (!text.empty()) {
    const Utf8Sequence next = ReadUtf8(text);
    characters += next.character;
    text.remove_prefix(next.length);
  }
  return characters;
}

std::string FromCharacters(std::u32string_view characters) {
  std::string text;
  for (const char32_t character : characters) AppendUtf8(character, text);
  return text;
}

std::string Lower(std::string_view text) {
  constexpr char32_t kSigma = 0x3A3, kFinalSigma = 0x3C2;
  const std::u32string characters = Characters(text);
  // Whether a letter stands on that side, leaving out what takes no case (Unicode, Final_Sigma).
  const auto letter_at = [&](size_t i, int step) {
    for (i += step; i < characters.size(); i += step) {
      const Category category = CategoryOf(characters[i]);
      const bool ignorable = category == Category::kMn || category == Category::kMe ||
                             category == Category::kCf || category == Category::kLm ||
                             category == Category::kSk || characters[i] == '\'' ||
                             characters[i] == '.' || characters[i] == ':' ||
                             characters[i] == 0xB7 || characters[i] == 0x2019;
      if (!ignorable) return category <= Category::kLt;
    }
    return false;
  };
  std::string out;
  for (size_t i = 0; i < characters.size(); ++i) {
    if (characters[i] == kSigma && letter_at(i, -1) && !letter_at(i, 1)) {
      AppendUtf8(kFinalSigma, out);
    } else {
      AppendLowerCase(characters[i], out);
    }
  }
  return out;
}

std::string Upper(std::string_view text) {
  std::string out;
  for (const char32_t character : Characters(text)) AppendUpperCase(character, out);
  return out;
}

std::string Capitalize(std::string_view text) {
  if (text.empty()) return {};
  const size_t first = Utf8Length(text[0]);
  // The whole is lowered first, since the end of a word decides on a sigma.
  const std::string lower = Lower(text);
  std::string first_lower;
  AppendLowerCase(ReadUtf8(text).character, first_lower);
  return Upper(text.substr(0, first)) + lower.substr(first_lower.size());
}

std::string_view Strip(std::string_view text, std::optional<std::string_view> set, bool left,
                       bool right) {
  const std::u32string members = set ? Characters(*set) : std::u32string();
  const auto goes = [&](char32_t c) {
    return set ? members.find(c) != std::u32string::npos : IsSpace(c);
  };
  while (left && !text.empty()) {
    const Utf8Sequence first = ReadUtf8(text);
    if (!goes(first.character)) break;
    text.remove_prefix(first.length);
  }
  while (right && !text.empty()) {
    size_t begin = text.size() - 1;
    while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
    if (!goes(ReadUtf8(text.substr(begin)).character)) break;
    text.remove_suffix(text.size() - begin);
  }
  return text;
}

}  // namespace hydrant::engine::chat
