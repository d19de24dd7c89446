// Hugging Face "model" components: a piece of text to token ids.

#ifndef HYDRANT_ENGINE_TOKENIZER_TOKEN_MODEL_H_
#define HYDRANT_ENGINE_TOKENIZER_TOKEN_MODEL_H_

#include <array>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/tokenizer/json_node.h"
#include "engine/tokenizer/pre_tokenizer.h"
#include "engine/tokenizer/vocabulary.h"

namespace hydrant::engine {

class TokenModel {
 public:
  virtual ~TokenModel() = default;
  virtual const Vocabulary& vocabulary() const = 0;
  // Appends the ids of every piece. The pieces are valid UTF-8.
  virtual void Tokenize(const Pieces& pieces, std::vector<int32_t>& ids) const = 0;
};

// "vocab" of a model: an object of tokens and their ids.
absl::StatusOr<Vocabulary> VocabularyFromJson(const JsonNode& json);

// The tokens <0x00> … <0xFF>, which stand for bytes; -1 where there is none.
std::array<int32_t, 256> ByteTokens(const Vocabulary& vocabulary);

}  // namespace hydrant::engine

#endif  // HYDRANT_ENGINE_TOKENIZER_TOKEN_MODEL_H_
