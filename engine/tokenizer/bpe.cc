#include "engine/tokenizer/bpe.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/tokenizer/utf8.h"

namespace hydrant::engine {
namespace {

constexpr int32_t kNone = -1;
constexpr size_t kLongPiece = 48;  // bytes; shorter ones are merged in one go

uint64_t PairKey(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

absl::Status MergeError(size_t rank, const Bpe::Merge& merge, std::string_view token) {
  const auto text = [](std::string_view part) {
    return absl::string_view(part.data(), part.size());
  };
  return absl::InvalidArgumentError(absl::StrCat("merge ", rank, " ('", text(merge.first), "' '",
                                                 text(merge.second), "'): '", text(token),
                                                 "' is not in the vocabulary"));
}

}  // namespace

Bpe::Bpe(Vocabulary vocabulary, BpeOptions options)
    : vocabulary_(std::move(vocabulary)), options_(std::move(options)) {
  byte_ids_ = ByteTokens(vocabulary_);
  for (char32_t character = 0; character < short_ids_.size(); ++character) {
    std::string text;
    AppendUtf8(character, text);
    short_ids_[character] = vocabulary_.Find(text).value_or(kNone);
  }
  for (int32_t id = 0; id < vocabulary_.size(); ++id) {
    const std::string* token = vocabulary_.TokenOf(id);
    if (token) longest_token_ = std::max(longest_token_, token->size());
  }
}

absl::StatusOr<std::unique_ptr<Bpe>> Bpe::Create(Vocabulary vocabulary,
                                                 const std::vector<Merge>& merges,
                                                 BpeOptions options) {
  std::unique_ptr<Bpe> bpe(new Bpe(std::move(vocabulary), std::move(options)));
  bpe->merges_.reserve(merges.size());
  std::string merged;
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const auto& [left, right] = merges[rank];
    merged.assign(left);
    // Within a word every token has the prefix, which a merge keeps at its front only.
    merged += right.substr(std::min(right.size(), bpe->options_.continuing_subword_prefix.size()));
    const std::optional<int32_t> left_id = bpe->vocabulary_.Find(left);
    const std::optional<int32_t> right_id = bpe->vocabulary_.Find(right);
    const std::optional<int32_t> id = bpe->vocabulary_.Find(merged);
    if (!left_id) return MergeError(rank, merges[rank], left);
    if (!right_id) return MergeError(rank, merges[rank], right);
    if (!id) return MergeError(rank, merges[rank], merged);
    bpe->merges_[PairKey(*left_id, *right_id)] = {static_cast<int32_t>(rank), *id};
  }
  bpe->FindWholeTokens();
  bpe->FindJoinedPairs();
  return bpe;
}

void Bpe::FindWholeTokens() {
  std::vector<bool> is_whole(vocabulary_.size());
  Scratch scratch;
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < vocabulary_.size(); ++id) {
    const std::string* token = vocabulary_.TokenOf(id);
    if (!token || !IsValidUtf8(*token)) continue;
    ids.clear();
    TokenizePiece(*token, scratch, ids);
    is_whole[id] = ids.size() == 1 && ids[0] == id;
  }
  is_whole_ = std::move(is_whole);
}

void Bpe::FindJoinedPairs() {
  for (const auto& [pair, merge] : merges_) {
    std::string_view rest = *vocabulary_.TokenOf(merge.id);
    if (rest.empty() || !IsValidUtf8(rest)) continue;
    for (Utf8Sequence left = ReadUtf8(rest); left.length < rest.size();) {
      rest.remove_prefix(left.length);
      const Utf8Sequence right = ReadUtf8(rest);
      joined_.insert(static_cast<uint64_t>(left.character) << 32 | right.character);
      left = right;
    }
  }
}

void Bpe::Tokenize(const Pieces& pieces, std::vector<int32_t>& ids) const {
  Scratch scratch;
  const bool has_affixes =
      !options_.continuing_subword_prefix.empty() || !options_.end_of_word_suffix.empty();
  for (size_t i = 0; i < pieces.size(); ++i) {
    std::string_view piece = pieces[i];
    if (options_.ignore_merges && piece.size() <= longest_token_) {
      if (const std::optional<int32_t> id = vocabulary_.Find(piece)) {
        ids.push_back(*id);
        continue;
      }
    }
    while (!has_affixes && piece.size() > kLongPiece) {
      const size_t end = PartEnd(piece);
      TokenizePart(piece.substr(0, end), scratch, ids);
      piece.remove_prefix(end);
    }
    if (!piece.empty()) TokenizePart(piece, scratch, ids);
  }
}

size_t Bpe::PartEnd(std::string_view piece) const {
  Utf8Sequence left = ReadUtf8(piece);
  size_t at = left.length;
  while (at < piece.size()) {
    const Utf8Sequence right = ReadUtf8(piece.substr(at));
    const uint64_t pair = static_cast<uint64_t>(left.character) << 32 | right.character;
    // Unknown characters may vanish, or be one token together.
    const auto known = [&](size_t begin, size_t length) {
      return IdOfCharacter(piece.substr(begin, length)) != kNone;
    };
    if (!joined_.contains(pair) && known(at - left.length, left.length) &&
        known(at, right.length)) {
      break;
    }
    at += right.length;
    left = right;
  }
  return at;
}

void Bpe::TokenizePart(std::string_view part, Scratch& scratch, std::vector<int32_t>& ids) const {
  if (part.size() <= longest_token_) {
    const std::optional<int32_t> id = vocabulary_.Find(part);
    if (id && is_whole_[*id]) {
      ids.push_back(*id);
      return;
    }
  }
  TokenizePiece(part, scratch, ids);
}

void Bpe::TokenizePiece(std::string_view piece, Scratch& scratch, std::vector<int32_t>& ids) const {
  std::vector<Symbol>& symbols = scratch.symbols;
  symbols.clear();
  scratch.heap.clear();
  AddSymbols(piece, symbols);
  for (size_t i = 0; i < symbols.size(); ++i) {
    symbols[i].previous = static_cast<int32_t>(i) - 1;
    symbols[i].next = i + 1 < symbols.size() ? static_cast<int32_t>(i) + 1 : kNone;
  }

  const auto later = [](const Candidate& a, const Candidate& b) { return a.order > b.order; };
  for (size_t i = 0; i < symbols.size(); ++i) AddCandidate(static_cast<int32_t>(i), scratch);
  std::make_heap(scratch.heap.begin(), scratch.heap.end(), later);
  while (!scratch.heap.empty()) {
    std::pop_heap(scratch.heap.begin(), scratch.heap.end(), later);
    const Candidate best = scratch.heap.back();
    scratch.heap.pop_back();

    const int32_t position = static_cast<int32_t>(best.order & 0xFFFFFFFF);
    Symbol& left = symbols[position];
    if (left.id != best.left || left.next == kNone || symbols[left.next].id != best.right) continue;
    Symbol& right = symbols[left.next];
    left.id = best.merged;
    right.id = kNone;  // gone: no candidate has this id
    left.next = right.next;
    if (left.next != kNone) symbols[left.next].previous = position;

    for (const int32_t changed : {left.previous, position}) {
      const size_t before = scratch.heap.size();
      AddCandidate(changed, scratch);
      if (scratch.heap.size() != before) {
        std::push_heap(scratch.heap.begin(), scratch.heap.end(), later);
      }
    }
  }
  for (int32_t i = symbols.empty() ? kNone : 0; i != kNone; i = symbols[i].next) {
    ids.push_back(symbols[i].id);
  }
}

void Bpe::AddCandidate(int32_t left, Scratch& scratch) const {
  if (left == kNone) return;
  const Symbol& symbol = scratch.symbols[left];
  if (symbol.next == kNone) return;
  const int32_t right_id = scratch.symbols[symbol.next].id;
  const auto found = merges_.find(PairKey(symbol.id, right_id));
  if (found == merges_.end()) return;
  const uint64_t order =
      static_cast<uint64_t>(found->second.rank) << 32 | static_cast<uint32_t>(left);
  scratch.heap.push_back({order, symbol.id, right_id, found->second.id});
}

std::string Bpe::WithAffixes(std::string_view character, bool is_first, bool is_last) const {
  std::string text = is_first ? std::string() : options_.continuing_subword_prefix;
  text += character;
  if (is_last) text += options_.end_of_word_suffix;
  return text;
}

int32_t Bpe::IdOfCharacter(std::string_view character) const {
  if (character.size() <= 2 && Utf8Length(character[0]) == character.size()) {
    const char32_t value = ReadUtf8(character).character;
    if (value < short_ids_.size()) return short_ids_[value];
  }
  return vocabulary_.Find(character).value_or(kNone);
}

void Bpe::AddSymbols(std::string_view piece, std::vector<Symbol>& symbols) const {
  const auto add = [&](int32_t id) { symbols.push_back({id, kNone, kNone}); };
  // An unknown id waits for the next character, which may be unknown as well. As in Hugging Face's
  // merge_word, byte tokens overtake one that waits.
  bool unk_waits = false;
  const bool has_affixes =
      !options_.continuing_subword_prefix.empty() || !options_.end_of_word_suffix.empty();
  std::string affixed;
  for (size_t at = 0; at < piece.size();) {
    std::string_view character = piece.substr(at, Utf8Length(piece[at]));
    const bool is_first = at == 0;
    at += character.size();
    if (has_affixes) {
      affixed = WithAffixes(character, is_first, at == piece.size());
      character = affixed;
    }
    const int32_t id = IdOfCharacter(character);
    if (id != kNone) {
      if (unk_waits) add(*options_.unk_id);
      unk_waits = false;
      add(id);
      continue;
    }
    const auto byte_id = [&](char byte) { return byte_ids_[static_cast<uint8_t>(byte)]; };
    if (options_.byte_fallback && std::all_of(character.begin(), character.end(),
                                              [&](char byte) { return byte_id(byte) != kNone; })) {
      for (const char byte : character) add(byte_id(byte));
      continue;
    }
    if (!options_.unk_id) continue;
    if (unk_waits && !options_.fuse_unk) add(*options_.unk_id);
    unk_waits = true;
  }
  if (unk_waits) add(*options_.unk_id);
}

}  // namespace hydrant::engine
