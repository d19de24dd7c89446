#include "engine/tokenizer/unigram.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/tokenizer/utf8.h"

namespace hydrant::engine {
namespace {

constexpr int32_t kNone = -1;
constexpr double kUnkPenalty = 10;  // as in SentencePiece

}  // namespace

Unigram::Unigram(Vocabulary vocabulary, std::vector<double> scores, Options options)
    : vocabulary_(std::move(vocabulary)), scores_(std::move(scores)), options_(options) {
  std::vector<std::pair<std::string_view, int32_t>> entries;
  for (int32_t id = 0; id < vocabulary_.size(); ++id) {
    const std::string* token = vocabulary_.TokenOf(id);
    if (!token || token->empty() || !IsValidUtf8(*token)) continue;
    entries.emplace_back(*token, *vocabulary_.Find(*token));
  }
  trie_ = ByteTrie(std::move(entries));
  if (!scores_.empty()) unk_score_ = *std::min_element(scores_.begin(), scores_.end());
  unk_score_ -= kUnkPenalty;
  byte_ids_ = ByteTokens(vocabulary_);
}

absl::StatusOr<std::unique_ptr<Unigram>> Unigram::Create(Vocabulary vocabulary,
                                                         std::vector<double> scores,
                                                         Options options) {
  if (scores.size() != static_cast<size_t>(vocabulary.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat(scores.size(), " scores for ", vocabulary.size(), " tokens"));
  }
  if (options.unk_id && (*options.unk_id < 0 || *options.unk_id >= vocabulary.size())) {
    return absl::InvalidArgumentError(absl::StrCat("unk_id ", *options.unk_id, " is no token"));
  }
  return std::unique_ptr<Unigram>(new Unigram(std::move(vocabulary), std::move(scores), options));
}

absl::StatusOr<std::unique_ptr<Unigram>> Unigram::FromJson(const JsonNode& json) {
  const absl::StatusOr<JsonNode> member = json.Member("vocab");
  if (!member.ok()) return member.status();
  const absl::StatusOr<std::vector<JsonNode>> items = member->AsArray();
  if (!items.ok()) return items.status();
  std::vector<std::pair<std::string, int64_t>> tokens;
  std::vector<double> scores;
  tokens.reserve(items->size());
  for (const JsonNode& item : *items) {
    const absl::StatusOr<std::vector<JsonNode>> pair = item.AsArray();
    if (!pair.ok() || pair->size() != 2) return item.Invalid("not a token and its score");
    absl::StatusOr<std::string> token = (*pair)[0].AsString();
    if (!token.ok()) return token.status();
    const absl::StatusOr<double> score = (*pair)[1].AsNumber();
    if (!score.ok()) return score.status();
    tokens.emplace_back(*std::move(token), tokens.size());
    scores.push_back(*score);
  }
  absl::StatusOr<Vocabulary> vocabulary = Vocabulary::Create(std::move(tokens));
  if (!vocabulary.ok()) return member->Invalid(std::string(vocabulary.status().message()));
  Options options;
  if (json.Find("unk_id")) {
    const absl::StatusOr<int64_t> id = json.Int("unk_id");
    if (!id.ok()) return id.status();
    if (*id < 0 || *id >= vocabulary->size()) return json.Invalid("\"unk_id\" is no token");
    options.unk_id = static_cast<int32_t>(*id);
  }
  const absl::StatusOr<bool> byte_fallback = json.Bool("byte_fallback", false);
  if (!byte_fallback.ok()) return byte_fallback.status();
  options.byte_fallback = *byte_fallback;
  absl::StatusOr<std::unique_ptr<Unigram>> made =
      Create(*std::move(vocabulary), std::move(scores), options);
  if (!made.ok()) return member->Invalid(std::string(made.status().message()));
  return made;
}

void Unigram::Tokenize(const Pieces& pieces, std::vector<int32_t>& ids) const {
  std::vector<End> ends;
  for (size_t i = 0; i < pieces.size(); ++i) TokenizePiece(pieces[i], ends, ids);
}

void Unigram::FindBest(std::string_view piece, std::vector<End>& ends) const {
  ends.assign(piece.size() + 1, End());
  const auto offer = [&](size_t begin, size_t end, double score, int32_t id) {
    End& target = ends[end];
    const double total = ends[begin].score + score;
    if (target.begin == kNone || total > target.score) {
      target = {total, static_cast<int32_t>(begin), id};
    }
  };
  for (size_t begin = 0; begin < piece.size();) {
    const size_t length = Utf8Length(piece[begin]);
    bool has_single = false;
    int32_t node = ByteTrie::kRoot;
    for (size_t at = begin; at < piece.size(); ++at) {
      node = trie_.Child(node, static_cast<uint8_t>(piece[at]));
      if (node == ByteTrie::kNone) break;
      const int32_t id = trie_.ValueAt(node);
      if (id == ByteTrie::kNone) continue;
      offer(begin, at + 1, scores_[id], id);
      has_single |= at + 1 == begin + length;
    }
    if (!has_single) offer(begin, begin + length, unk_score_, options_.unk_id.value_or(kNone));
    begin += length;
  }
}

void Unigram::AddUnknown(std::string_view text, std::vector<int32_t>& ids) const {
  const auto id_of = [&](char byte) { return byte_ids_[static_cast<uint8_t>(byte)]; };
  if (const std::optional<int32_t> id = vocabulary_.Find(text)) {
    ids.push_back(*id);
  } else if (options_.byte_fallback &&
             std::all_of(text.begin(), text.end(), [&](char b) { return id_of(b) != kNone; })) {
    // Last to first: the caller turns its ids around.
    for (auto byte = text.rbegin(); byte != text.rend(); ++byte) ids.push_back(id_of(*byte));
  } else if (options_.unk_id) {
    ids.push_back(*options_.unk_id);
  }
}

void Unigram::TokenizePiece(std::string_view piece, std::vector<End>& ends,
                            std::vector<int32_t>& ids) const {
  FindBest(piece, ends);
  const size_t first = ids.size();
  const int32_t unknown = options_.unk_id.value_or(kNone);
  // From the last token to the first. Neighbouring unknowns are one.
  for (size_t end = piece.size(); end > 0;) {
    size_t begin = static_cast<size_t>(ends[end].begin);
    if (ends[end].id != unknown) {
      ids.push_back(ends[end].id);
    } else {
      while (begin > 0 && ends[begin].id == unknown) begin = static_cast<size_t>(ends[begin].begin);
      AddUnknown(piece.substr(begin, end - begin), ids);
    }
    end = begin;
  }
  std::reverse(ids.begin() + static_cast<ptrdiff_t>(first), ids.end());
}

}  // namespace hydrant::engine
