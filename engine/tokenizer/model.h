// Hugging Face "model" components: a piece of text to token ids.

#ifndef HYDRANT_ENGINE_TOKENIZER_MODEL_H_
#define HYDRANT_ENGINE_TOKENIZER_MODEL_H_

#include <cstdint>
#include <vector>

#include "engine/tokenizer/pre_tokenizer.h"
#include "engine/tokenizer/vocabulary.h"

namespace hydrant::engine {

class Model {
 public:
  virtual ~Model() = default;
  virtual const Vocabulary& vocabulary() const = 0;
  // Appends the ids of every piece. The pieces are valid UTF-8.
  virtual void Tokenize(const Pieces& pieces, std::vector<int32_t>& ids) const = 0;
};

}  // namespace hydrant::engine

#endif  // HYDRANT_ENGINE_TOKENIZER_MODEL_H_
