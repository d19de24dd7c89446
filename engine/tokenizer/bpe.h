// Byte pair encoding (Sennrich et al. 2016) as Hugging Face's BPE model does it: a piece starts as
// one symbol a character, and the adjacent pair of the lowest rank is merged, the leftmost of
// equals first, until no pair has a rank. O(n log n) for a piece of n characters.

#ifndef HYDRANT_ENGINE_TOKENIZER_BPE_H_
#define HYDRANT_ENGINE_TOKENIZER_BPE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "engine/tokenizer/json_node.h"
#include "engine/tokenizer/token_model.h"

namespace hydrant::engine {

struct BpeOptions {
  // For a character that is no token. Without one (and without byte_fallback) it vanishes.
  std::optional<int32_t> unk_id;
  bool fuse_unk = false;       // neighbouring unknown characters are one unk_id
  bool byte_fallback = false;  // such a character becomes its bytes' tokens <0x00> … <0xFF>
  bool ignore_merges = false;  // a piece that is a token is that token, whatever the merges say
  std::string continuing_subword_prefix = {};  // of every character of a piece but the first
  std::string end_of_word_suffix = {};         // of the last one
};

class Bpe : public TokenModel {
 public:
  using Merge = std::pair<std::string_view, std::string_view>;

  // `merges` by rising rank. INVALID_ARGUMENT names a merge whose parts or result are no token.
  static absl::StatusOr<std::unique_ptr<Bpe>> Create(Vocabulary vocabulary,
                                                     const std::vector<Merge>& merges,
                                                     BpeOptions options);
  // tokenizer.json's "model".
  static absl::StatusOr<std::unique_ptr<Bpe>> FromJson(const JsonNode& json);

  const Vocabulary& vocabulary() const override { return vocabulary_; }
  void Tokenize(const Pieces& pieces, std::vector<int32_t>& ids) const override;

 private:
  struct Ranked {
    int32_t rank;
    int32_t id;  // of the merged token
  };
  struct Symbol {
    int32_t id;
    int32_t previous;  // -1 at the ends
    int32_t next;
  };
  struct Candidate {
    uint64_t order;  // rank, then position
    int32_t left;    // ids when it was found: it is stale once they are others
    int32_t right;
    int32_t merged;
  };
  // Working memory of one call.
  struct Scratch {
    std::vector<Symbol> symbols;
    std::vector<Candidate> heap;
  };

  Bpe(Vocabulary vocabulary, BpeOptions options);

  void FindWholeTokens();
  void FindJoinedPairs();
  // Appends the ids of a piece, or of a part of one that no merge reaches out of.
  void TokenizePart(std::string_view part, Scratch& scratch, std::vector<int32_t>& ids) const;
  // How much of `piece` no merge reaches out of: up to between two characters that no token has
  // side by side.
  size_t PartEnd(std::string_view piece) const;
  void TokenizePiece(std::string_view piece, Scratch& scratch, std::vector<int32_t>& ids) const;
  void AddSymbols(std::string_view piece, std::vector<Symbol>& symbols) const;
  void AddCandidate(int32_t left, Scratch& scratch) const;
  int32_t IdOfCharacter(std::string_view character) const;
  std::string WithAffixes(std::string_view character, bool is_first, bool is_last) const;

  Vocabulary vocabulary_;
  BpeOptions options_;
  absl::flat_hash_map<uint64_t, Ranked> merges_;  // by left id << 32 | right id
  std::array<int32_t, 256> byte_ids_;             // of <0x00> …; -1 where there is none
  std::array<int32_t, 0x180> short_ids_;          // of the first characters of Unicode
  // Tokens that a piece of just their text becomes: found once, it spares most words the merging.
  std::vector<bool> is_whole_;
  size_t longest_token_ = 0;
  // The pairs of neighbouring characters within tokens: first << 32 | second. Texts that are cut
  // into no words, as SentencePiece's, are merged part by part between others.
  absl::flat_hash_set<uint64_t> joined_;
};

}  // namespace hydrant::engine

#endif  // HYDRANT_ENGINE_TOKENIZER_BPE_H_
