// Hugging Face's models WordPiece (Schuster and Nakajima 2012; the longest token first) and
// WordLevel (a piece is a token or unknown).

#ifndef HYDRANT_ENGINE_TOKENIZER_WORD_MODELS_H_
#define HYDRANT_ENGINE_TOKENIZER_WORD_MODELS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/tokenizer/byte_trie.h"
#include "engine/tokenizer/json_node.h"
#include "engine/tokenizer/token_model.h"

namespace hydrant::engine {

class WordPiece : public TokenModel {
 public:
  static absl::StatusOr<std::unique_ptr<WordPiece>> FromJson(const JsonNode& json);
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  void Tokenize(const Pieces& pieces, std::vector<int32_t>& ids) const override;

 private:
  WordPiece(Vocabulary vocabulary, std::optional<int32_t> unk_id, std::string prefix,
            int64_t max_characters);
  // False: the piece has a part that is no token.
  bool TokenizePiece(std::string_view piece, std::vector<int32_t>& ids) const;

  Vocabulary vocabulary_;
  std::optional<int32_t> unk_id_;  // pieces that cannot be written vanish without one
  std::string prefix_;             // of tokens within a word
  int64_t max_characters_;         // of a piece; longer ones are unknown
  ByteTrie trie_;
  int32_t inner_root_;  // of trie_, after the prefix
};

class WordLevel : public TokenModel {
 public:
  static absl::StatusOr<std::unique_ptr<WordLevel>> FromJson(const JsonNode& json);
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  void Tokenize(const Pieces& pieces, std::vector<int32_t>& ids) const override;

 private:
  WordLevel(Vocabulary vocabulary, std::optional<int32_t> unk_id)
      : vocabulary_(std::move(vocabulary)), unk_id_(unk_id) {}

  Vocabulary vocabulary_;
  std::optional<int32_t> unk_id_;
};

}  // namespace hydrant::engine

#endif  // HYDRANT_ENGINE_TOKENIZER_WORD_MODELS_H_
