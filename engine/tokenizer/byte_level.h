// GPT-2's spelling of bytes: each of the 256 bytes is a printable character, so that a vocabulary
// of strings can hold any bytes (Radford et al., encoder.py, bytes_to_unicode).

#ifndef HYDRANT_ENGINE_TOKENIZER_BYTE_LEVEL_H_
#define HYDRANT_ENGINE_TOKENIZER_BYTE_LEVEL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace hydrant::engine {

char32_t CharacterOfByte(uint8_t byte);

// Appends the spelling of `bytes`.
void AppendByteSpelling(std::string_view bytes, std::string& out);

// The bytes that `spelling` (valid UTF-8) stands for; nullopt when a character stands for none.
std::optional<std::string> BytesOfSpelling(std::string_view spelling);

}  // namespace hydrant::engine

#endif  // HYDRANT_ENGINE_TOKENIZER_BYTE_LEVEL_H_
