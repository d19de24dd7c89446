#include "engine/tokenizer/byte_level.h"

#include <array>

#include "engine/tokenizer/utf8.h"

namespace hydrant::engine {
namespace {

constexpr char32_t kFirstStandIn = 0x100;

constexpr bool StandsForItself(uint32_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr std::array<char32_t, 256> kCharacters = [] {
  std::array<char32_t, 256> characters{};
  char32_t next = kFirstStandIn;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    characters[byte] = StandsForItself(byte) ? byte : next++;
  }
  return characters;
}();

// By character; -1 where none. All spellings lie below 0x180.
constexpr std::array<int16_t, 0x180> kBytes = [] {
  std::array<int16_t, 0x180> bytes{};
  for (int16_t& byte : bytes) byte = -1;
  for (int16_t byte = 0; byte < 256; ++byte) bytes[kCharacters[byte]] = byte;
  return bytes;
}();

}  // namespace

char32_t CharacterOfByte(uint8_t byte) { return kCharacters[byte]; }

void AppendByteSpelling(std::string_view bytes, std::string& out) {
  for (const char byte : bytes) {
    const char32_t character = kCharacters[static_cast<uint8_t>(byte)];
    if (character < 0x80) {
      out.push_back(static_cast<char>(character));
    } else {
      out.push_back(static_cast<char>(0xC0 | character >> 6));
      out.push_back(static_cast<char>(0x80 | (character & 0x3F)));
    }
  }
}

std::optional<std::string> BytesOfSpelling(std::string_view spelling) {
  std::string bytes;
  bytes.reserve(spelling.size());
  while (!spelling.empty()) {
    const Utf8Sequence sequence = ReadUtf8(spelling);
    if (sequence.kind != Utf8Sequence::kCharacter || sequence.character >= kBytes.size() ||
        kBytes[sequence.character] < 0) {
      return std::nullopt;
    }
    bytes.push_back(static_cast<char>(kBytes[sequence.character]));
    spelling.remove_prefix(sequence.length);
  }
  return bytes;
}

}  // namespace hydrant::engine
