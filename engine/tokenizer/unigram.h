// The unigram language model (Kudo 2018) as Hugging Face's Unigram does it: of all ways to write a
// piece as tokens, the one with the highest sum of scores.

#ifndef HYDRANT_ENGINE_TOKENIZER_UNIGRAM_H_
#define HYDRANT_ENGINE_TOKENIZER_UNIGRAM_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/tokenizer/byte_trie.h"
#include "engine/tokenizer/json_node.h"
#include "engine/tokenizer/token_model.h"

namespace hydrant::engine {

class Unigram : public TokenModel {
 public:
  struct Options {
    // For neighbouring characters that no token begins with. Without one they vanish.
    std::optional<int32_t> unk_id;
    bool byte_fallback = false;  // they become their bytes' tokens <0x00> … <0xFF>
  };

  // `scores[id]` of each token. INVALID_ARGUMENT when the counts differ, or unk_id is no token.
  static absl::StatusOr<std::unique_ptr<Unigram>> Create(Vocabulary vocabulary,
                                                         std::vector<double> scores,
                                                         Options options);
  // tokenizer.json's "model".
  static absl::StatusOr<std::unique_ptr<Unigram>> FromJson(const JsonNode& json);

  const Vocabulary& vocabulary() const override { return vocabulary_; }
  void Tokenize(const Pieces& pieces, std::vector<int32_t>& ids) const override;

 private:
  // The best way to write what ends at a byte.
  struct End {
    double score = 0;
    int32_t begin = -1;  // of its last token; -1: no way yet
    int32_t id = 0;
  };

  Unigram(Vocabulary vocabulary, std::vector<double> scores, Options options);
  void TokenizePiece(std::string_view piece, std::vector<End>& ends,
                     std::vector<int32_t>& ids) const;
  void FindBest(std::string_view piece, std::vector<End>& ends) const;
  void AddUnknown(std::string_view text, std::vector<int32_t>& ids) const;

  Vocabulary vocabulary_;
  std::vector<double> scores_;
  Options options_;
  ByteTrie trie_;
  double unk_score_ = 0;
  std::array<int32_t, 256> byte_ids_;  // -1 where there is none
};

}  // namespace hydrant::engine

#endif  // HYDRANT_ENGINE_TOKENIZER_UNIGRAM_H_
