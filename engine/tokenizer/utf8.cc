#include "engine/tokenizer/utf8.h"

#include <cstdint>

namespace hydrant::engine {

Utf8Sequence ReadUtf8(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {Utf8Sequence::kCharacter, 1, lead};
  size_t length;
  uint8_t low = 0x80, high = 0xBF;  // of the second byte: keeps out overlong forms and surrogates
  char32_t character;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
    character = lead & 0x1F;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    character = lead & 0x0F;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    character = lead & 0x07;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return {Utf8Sequence::kInvalid, 1, 0};
  }
  for (size_t i = 1; i < length; ++i) {
    if (i == text.size()) return {Utf8Sequence::kUnfinished, i, 0};
    if (byte(i) < low || byte(i) > high) return {Utf8Sequence::kInvalid, i, 0};
    character = character << 6 | (byte(i) & 0x3F);
    low = 0x80;
    high = 0xBF;
  }
  return {Utf8Sequence::kCharacter, length, character};
}

bool IsValidUtf8(std::string_view text) {
  while (!text.empty()) {
    const Utf8Sequence sequence = ReadUtf8(text);
    if (sequence.kind != Utf8Sequence::kCharacter) return false;
    text.remove_prefix(sequence.length);
  }
  return true;
}

std::string ToValidUtf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Utf8Sequence sequence = ReadUtf8(text);
    out += sequence.kind == Utf8Sequence::kCharacter ? text.substr(0, sequence.length)
                                                     : kReplacementCharacter;
    text.remove_prefix(sequence.length);
  }
  return out;
}

void AppendUtf8(char32_t character, std::string& out) {
  const auto append = [&](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (character < 0x80) {
    append(character);
  } else if (character < 0x800) {
    append(0xC0 | character >> 6);
    append(0x80 | (character & 0x3F));
  } else if (character < 0x10000) {
    append(0xE0 | character >> 12);
    append(0x80 | (character >> 6 & 0x3F));
    append(0x80 | (character & 0x3F));
  } else {
    append(0xF0 | character >> 18);
    append(0x80 | (character >> 12 & 0x3F));
    append(0x80 | (character >> 6 & 0x3F));
    append(0x80 | (character & 0x3F));
  }
}

}  // namespace hydrant::engine
