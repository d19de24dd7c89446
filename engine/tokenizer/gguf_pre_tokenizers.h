// What the names of "tokenizer.ggml.pre" stand for: the components of the tokenizer.json that the
// vocabulary came from, which GGUF has no keys for.

#ifndef HYDRANT_ENGINE_TOKENIZER_GGUF_PRE_TOKENIZERS_H_
#define HYDRANT_ENGINE_TOKENIZER_GGUF_PRE_TOKENIZERS_H_

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/tokenizer/pre_tokenizer.h"

namespace hydrant::engine {

struct GgufPreTokenizer {
  std::unique_ptr<PreTokenizer> pre_tokenizer;
  bool nfc = false;            // texts are normalised to NFC first
  bool ignore_merges = false;  // as BpeOptions has it
  bool add_bos = false;        // unless "tokenizer.ggml.add_bos_token" says otherwise
};

// NOT_FOUND when the name is not known.
absl::StatusOr<GgufPreTokenizer> PreTokenizerOfGgufName(std::string_view name);

}  // namespace hydrant::engine

#endif  // HYDRANT_ENGINE_TOKENIZER_GGUF_PRE_TOKENIZERS_H_
