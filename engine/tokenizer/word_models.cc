#include "engine/tokenizer/word_models.h"

#include <utility>

namespace hydrant::engine {
namespace {

// The id of the token that `json` names as "unk_token"; nullopt where there is none.
absl::StatusOr<std::optional<int32_t>> UnknownToken(const JsonNode& json,
                                                    const Vocabulary& vocabulary) {
  if (!json.Find("unk_token")) return std::nullopt;
  const absl::StatusOr<std::string> token = json.String("unk_token");
  if (!token.ok()) return token.status();
  return vocabulary.Find(*token);
}

int64_t CountCharacters(std::string_view text) {
  int64_t count = 0;
  for (const char byte : text) count += (static_cast<uint8_t>(byte) & 0xC0) != 0x80;
  return count;
}

}  // namespace

WordPiece::WordPiece(Vocabulary vocabulary, std::optional<int32_t> unk_id, std::string prefix,
                     int64_t max_characters)
    : vocabulary_(std::move(vocabulary)),
      unk_id_(unk_id),
      prefix_(std::move(prefix)),
      max_characters_(max_characters) {
  std::vector<std::pair<std::string_view, int32_t>> entries;
  for (int32_t id = 0; id < vocabulary_.size(); ++id) {
    const std::string* token = vocabulary_.TokenOf(id);
    if (token && !token->empty()) entries.emplace_back(*token, *vocabulary_.Find(*token));
  }
  trie_ = ByteTrie(std::move(entries));
  inner_root_ = ByteTrie::kRoot;
  for (const char byte : prefix_) {
    if (inner_root_ == ByteTrie::kNone) break;
    inner_root_ = trie_.Child(inner_root_, static_cast<uint8_t>(byte));
  }
}

absl::StatusOr<std::unique_ptr<WordPiece>> WordPiece::FromJson(const JsonNode& json) {
  absl::StatusOr<Vocabulary> vocabulary = VocabularyFromJson(json);
  if (!vocabulary.ok()) return vocabulary.status();
  const auto unk_id = UnknownToken(json, *vocabulary);
  if (!unk_id.ok()) return unk_id.status();
  std::string prefix = "##";
  if (json.Find("continuing_subword_prefix")) {
    absl::StatusOr<std::string> given = json.String("continuing_subword_prefix");
    if (!given.ok()) return given.status();
    prefix = *std::move(given);
  }
  int64_t max_characters = 100;
  if (json.Find("max_input_chars_per_word")) {
    const absl::StatusOr<int64_t> given = json.Int("max_input_chars_per_word");
    if (!given.ok()) return given.status();
    max_characters = *given;
  }
  return std::unique_ptr<WordPiece>(
      new WordPiece(*std::move(vocabulary), *unk_id, std::move(prefix), max_characters));
}

void WordPiece::Tokenize(const Pieces& pieces, std::vector<int32_t>& ids) const {
  for (size_t i = 0; i < pieces.size(); ++i) {
    const size_t before = ids.size();
    if (CountCharacters(pieces[i]) <= max_characters_ && TokenizePiece(pieces[i], ids)) continue;
    ids.resize(before);
    if (unk_id_) ids.push_back(*unk_id_);
  }
}

bool WordPiece::TokenizePiece(std::string_view piece, std::vector<int32_t>& ids) const {
  for (size_t begin = 0; begin < piece.size();) {
    int32_t node = begin == 0 ? ByteTrie::kRoot : inner_root_;
    int32_t longest = ByteTrie::kNone;
    size_t end = begin;
    for (size_t at = begin; at < piece.size() && node != ByteTrie::kNone; ++at) {
      node = trie_.Child(node, static_cast<uint8_t>(piece[at]));
      if (node == ByteTrie::kNone || trie_.ValueAt(node) == ByteTrie::kNone) continue;
      longest = trie_.ValueAt(node);
      end = at + 1;
    }
    if (longest == ByteTrie::kNone) return false;
    ids.push_back(longest);
    begin = end;
  }
  return true;
}

absl::StatusOr<std::unique_ptr<WordLevel>> WordLevel::FromJson(const JsonNode& json) {
  absl::StatusOr<Vocabulary> vocabulary = VocabularyFromJson(json);
  if (!vocabulary.ok()) return vocabulary.status();
  const auto unk_id = UnknownToken(json, *vocabulary);
  if (!unk_id.ok()) return unk_id.status();
  return std::unique_ptr<WordLevel>(new WordLevel(*std::move(vocabulary), *unk_id));
}

void WordLevel::Tokenize(const Pieces& pieces, std::vector<int32_t>& ids) const {
  for (size_t i = 0; i < pieces.size(); ++i) {
    const std::optional<int32_t> id = vocabulary_.Find(pieces[i]);
    if (id || unk_id_) ids.push_back(id ? *id : *unk_id_);
  }
}

}  // namespace hydrant::engine
