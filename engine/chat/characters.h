// Python's notions of characters, and texts counted in characters.

#ifndef HYDRANT_ENGINE_CHAT_CHARACTERS_H_
#define HYDRANT_ENGINE_CHAT_CHARACTERS_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace hydrant::engine::chat {

bool IsPrintable(char32_t character);  // as str.isprintable
bool IsSpace(char32_t character);      // as str.isspace

size_t CountCharacters(std::string_view text);
// Where character `index` begins; the end of the text for an index beyond it.
size_t OffsetOfCharacter(std::string_view text, size_t index);
std::u32string Characters(std::string_view text);
std::string FromCharacters(std::u32string_view characters);

std::string Lower(std::string_view text);
std::string Upper(std::string_view text);
std::string Capitalize(std::string_view text);

// Removes white space, or the characters of `set`, at the chosen ends.
std::string_view Strip(std::string_view text, std::optional<std::string_view> set, bool left,
                       bool right);

}  // namespace hydrant::engine::chat

#endif  // HYDRANT_ENGINE_CHAT_CHARACTERS_H_
