#include "engine/tokenizer/charsmap.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "engine/tokenizer/utf8.h"

namespace hydrant::engine {
namespace {

// Longer graphemes are looked up character by character.
constexpr size_t kMaxGrapheme = 5;

uint32_t ReadU32(std::string_view data, size_t at) {
  uint32_t value = 0;
  for (int i = 3; i >= 0; --i) value = value << 8 | static_cast<uint8_t>(data[at + i]);
  return value;
}

// A unit of darts-clone.
uint32_t Offset(uint32_t unit) { return (unit >> 10) << ((unit & 0x200) >> 6); }
uint32_t Label(uint32_t unit) { return unit & 0x800000FF; }
bool HasLeaf(uint32_t unit) { return unit >> 8 & 1; }
uint32_t LeafValue(uint32_t unit) { return unit & 0x7FFFFFFF; }

}  // namespace

std::optional<std::string> DecodeBase64(std::string_view text) {
  std::string bytes;
  if (!absl::Base64Unescape({text.data(), text.size()}, &bytes)) return std::nullopt;
  return bytes;
}

CharsmapNormalizer::CharsmapNormalizer(std::vector<uint32_t> trie, std::string texts,
                                       Regex grapheme)
    : trie_(std::move(trie)), texts_(std::move(texts)), grapheme_(std::move(grapheme)) {}

absl::StatusOr<std::unique_ptr<Normalizer>> CharsmapNormalizer::Create(std::string_view data) {
  if (data.size() < 4) return absl::InvalidArgumentError("precompiled charsmap: no size");
  const size_t bytes = ReadU32(data, 0);
  if (bytes % 4 != 0 || bytes > data.size() - 4) {
    return absl::InvalidArgumentError("precompiled charsmap: the trie does not fit into it");
  }
  std::vector<uint32_t> trie;
  for (size_t at = 4; at < 4 + bytes; at += 4) trie.push_back(ReadU32(data, at));
  std::string texts(data.substr(4 + bytes));
  if (!IsValidUtf8(texts)) return absl::InvalidArgumentError("precompiled charsmap: not UTF-8");
  absl::StatusOr<Regex> grapheme = Regex::Compile(R"(\X)");
  if (!grapheme.ok()) return grapheme.status();
  return std::unique_ptr<Normalizer>(
      new CharsmapNormalizer(std::move(trie), std::move(texts), *std::move(grapheme)));
}

std::optional<std::string_view> CharsmapNormalizer::Replacement(std::string_view chunk) const {
  if (trie_.empty()) return std::nullopt;
  uint32_t at = Offset(trie_[0]);
  for (const char signed_byte : chunk) {
    const auto byte = static_cast<uint8_t>(signed_byte);
    if (byte == 0) return std::nullopt;
    at ^= byte;
    if (at >= trie_.size() || Label(trie_[at]) != byte) return std::nullopt;
    const bool has_leaf = HasLeaf(trie_[at]);
    at ^= Offset(trie_[at]);
    if (!has_leaf) continue;
    // The shortest text that the chunk begins with decides on all of it.
    if (at >= trie_.size()) return std::nullopt;
    const size_t begin = LeafValue(trie_[at]);
    if (begin > texts_.size()) return std::nullopt;
    const std::string_view text = std::string_view(texts_).substr(begin);
    return text.substr(0, text.find('\0'));
  }
  return std::nullopt;
}

void CharsmapNormalizer::AppendNormalized(std::string_view grapheme, std::string& out) const {
  if (grapheme.size() <= kMaxGrapheme) {
    if (const auto replacement = Replacement(grapheme)) {
      out += *replacement;
      return;
    }
  }
  while (!grapheme.empty()) {
    const std::string_view character = grapheme.substr(0, Utf8Length(grapheme[0]));
    out += Replacement(character).value_or(character);
    grapheme.remove_prefix(character.size());
  }
}

std::string CharsmapNormalizer::Normalize(std::string text) const {
  std::string out;
  out.reserve(text.size());
  const std::string_view all = text;
  const auto is_ascii = [&](size_t i) {
    return i >= all.size() || static_cast<uint8_t>(all[i]) < 0x80;
  };
  for (size_t at = 0; at < all.size();) {
    // A character of ASCII before another one stands alone, but for "\r\n".
    if (is_ascii(at) && is_ascii(at + 1) && all[at] != '\r') {
      AppendNormalized(all.substr(at, 1), out);
      ++at;
      continue;
    }
    // Graphemes of the run up to the next such place.
    size_t end = at + 1;
    while (end < all.size() && !(is_ascii(end) && is_ascii(end + 1) && all[end - 1] != '\r')) ++end;
    const std::string_view run = all.substr(at, end - at);
    grapheme_.ForEachMatch(run, [&](size_t begin, size_t stop) {
      AppendNormalized(run.substr(begin, stop - begin), out);
    });
    at = end;
  }
  return out;
}

}  // namespace hydrant::engine
