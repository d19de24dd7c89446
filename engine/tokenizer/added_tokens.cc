#include "engine/tokenizer/added_tokens.h"

#include <algorithm>
#include <utility>

#include "engine/tokenizer/unicode.h"
#include "engine/tokenizer/utf8.h"
#include "engine/tokenizer/vocabulary.h"

namespace hydrant::engine {
namespace {

// \w of Rust's regex crate, which Hugging Face uses here.
constexpr std::string_view kWordCharacter = R"([\w\x{200c}\x{200d}])";

// The last character of `text`, valid and not empty.
std::string_view LastCharacter(std::string_view text) {
  size_t begin = text.size() - 1;
  while ((static_cast<uint8_t>(text[begin]) & 0xC0) == 0x80) --begin;
  return text.substr(begin);
}

std::string_view FirstCharacter(std::string_view text) {
  return text.substr(0, Utf8Length(text[0]));
}

size_t WithoutSpaceBefore(std::string_view text, size_t at) {
  while (at > 0) {
    const std::string_view last = LastCharacter(text.substr(0, at));
    if (!IsWhiteSpace(ReadUtf8(last).character)) break;
    at -= last.size();
  }
  return at;
}

size_t WithSpaceAfter(std::string_view text, size_t at) {
  while (at < text.size()) {
    const Utf8Sequence next = ReadUtf8(text.substr(at));
    if (!IsWhiteSpace(next.character)) break;
    at += next.length;
  }
  return at;
}

}  // namespace

absl::StatusOr<AddedToken> AddedToken::FromJson(const JsonNode& json) {
  AddedToken token;
  const absl::StatusOr<int64_t> id = json.Int("id");
  if (!id.ok()) return id.status();
  if (*id < 0 || *id >= Vocabulary::kMaxTokens) return json.Invalid("\"id\" is out of range");
  token.id = static_cast<int32_t>(*id);
  absl::StatusOr<std::string> content = json.String("content");
  if (!content.ok()) return content.status();
  token.content = *std::move(content);
  for (const auto& [name, flag] :
       {std::make_pair("special", &token.special), std::make_pair("normalized", &token.normalized),
        std::make_pair("single_word", &token.single_word), std::make_pair("lstrip", &token.lstrip),
        std::make_pair("rstrip", &token.rstrip)}) {
    const absl::StatusOr<bool> value = json.Bool(name, false);
    if (!value.ok()) return value.status();
    *flag = *value;
  }
  return token;
}

AddedTokenFinder::AddedTokenFinder(std::vector<AddedToken> tokens, Regex word_character)
    : tokens_(std::move(tokens)), word_character_(std::move(word_character)) {}

absl::StatusOr<AddedTokenFinder> AddedTokenFinder::Create(
    std::vector<AddedToken> tokens, const std::vector<std::string>& patterns) {
  absl::StatusOr<Regex> word_character = Regex::Compile(kWordCharacter);
  if (!word_character.ok()) return word_character.status();
  AddedTokenFinder finder(std::move(tokens), *std::move(word_character));
  for (size_t i = 0; i < patterns.size(); ++i) {
    // Broken UTF-8 is in no text, and would cut one within a character.
    if (IsValidUtf8(patterns[i])) finder.Insert(patterns[i], static_cast<int32_t>(i));
  }
  return finder;
}

int32_t AddedTokenFinder::Child(int32_t node, uint8_t byte) const {
  if (node == 0) return first_nodes_[byte];
  int32_t child = nodes_[node].first_child;
  while (child != 0 && nodes_[child].byte != byte) child = nodes_[child].next_sibling;
  return child;
}

void AddedTokenFinder::Insert(std::string_view pattern, int32_t token) {
  if (pattern.empty()) return;
  int32_t node = 0;
  for (const char signed_byte : pattern) {
    const auto byte = static_cast<uint8_t>(signed_byte);
    int32_t child = Child(node, byte);
    if (child == 0) {
      child = static_cast<int32_t>(nodes_.size());
      nodes_.push_back({byte, 0, nodes_[node].first_child, -1});
      nodes_[node].first_child = child;
      if (node == 0) first_nodes_[byte] = child;
    }
    node = child;
  }
  // Of two that look the same the first counts.
  if (nodes_[node].token < 0) nodes_[node].token = token;
}

AddedTokenFinder::Match AddedTokenFinder::LongestAt(std::string_view text, size_t begin) const {
  Match longest;
  int32_t node = 0;
  for (size_t at = begin; at < text.size();) {
    node = Child(node, static_cast<uint8_t>(text[at]));
    if (node == 0) break;
    ++at;
    if (nodes_[node].token >= 0) longest = {at, nodes_[node].token};
  }
  return longest;
}

bool AddedTokenFinder::IsSingleWord(std::string_view text, size_t begin, size_t end) const {
  const auto is_word = [&](std::string_view character) {
    bool found = false;
    word_character_.ForEachMatch(character, [&](size_t, size_t) { found = true; });
    return found;
  };
  return (begin == 0 || !is_word(LastCharacter(text.substr(0, begin)))) &&
         (end == text.size() || !is_word(FirstCharacter(text.substr(end))));
}

std::vector<AddedTokenFinder::Part> AddedTokenFinder::Split(std::string_view text) const {
  std::vector<Part> parts;
  size_t done = 0;  // up to here `text` is in `parts`
  for (size_t at = 0; at < text.size();) {
    if (first_nodes_[static_cast<uint8_t>(text[at])] == 0) {
      ++at;
      continue;
    }
    const Match match = LongestAt(text, at);
    if (match.token < 0) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[match.token];
    size_t begin = at;
    size_t end = match.end;
    at = match.end;
    if (token.single_word && !IsSingleWord(text, begin, end)) continue;
    if (token.lstrip) begin = std::max(WithoutSpaceBefore(text, begin), done);
    if (token.rstrip) end = WithSpaceAfter(text, end);
    if (begin >= end) continue;  // all of it went with the token before
    if (begin > done) parts.push_back({text.substr(done, begin - done), std::nullopt});
    parts.push_back({text.substr(begin, end - begin), token.id});
    done = end;
  }
  if (done < text.size()) parts.push_back({text.substr(done), std::nullopt});
  return parts;
}

}  // namespace hydrant::engine
