// A tokenizer put together from Hugging Face's kinds of components:
//   text -> added tokens -> normalizer -> added tokens -> pre-tokenizer -> model -> post-processor
//   ids -> token strings -> decoder -> text

#ifndef HYDRANT_ENGINE_TOKENIZER_COMPOSED_TOKENIZER_H_
#define HYDRANT_ENGINE_TOKENIZER_COMPOSED_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "engine/tokenizer/added_tokens.h"
#include "engine/tokenizer/decoder.h"
#include "engine/tokenizer/normalizer.h"
#include "engine/tokenizer/post_processor.h"
#include "engine/tokenizer/pre_tokenizer.h"
#include "engine/tokenizer/token_model.h"
#include "engine/tokenizer/tokenizer.h"

namespace hydrant::engine {

struct TokenizerComponents {
  std::vector<AddedToken> added_tokens;
  std::unique_ptr<Normalizer> normalizer;       // null: none
  std::unique_ptr<PreTokenizer> pre_tokenizer;  // null: none
  std::unique_ptr<TokenModel> model;
  PostProcessor post_processor;
  std::unique_ptr<Decoder> decoder;
  std::optional<int32_t> bos_id;
  std::vector<int32_t> eos_ids;
  std::vector<std::pair<std::string, std::string>> named_tokens;
};

class ComposedTokenizer : public Tokenizer {
 public:
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Create(TokenizerComponents components);

  int32_t vocab_size() const override { return vocab_size_; }
  std::optional<int32_t> bos_id() const override { return parts_.bos_id; }
  std::vector<int32_t> eos_ids() const override { return parts_.eos_ids; }
  std::vector<std::pair<std::string, std::string>> named_tokens() const override {
    return parts_.named_tokens;
  }
  std::vector<int32_t> Encode(std::string_view text, bool add_special_tokens) const override;
  std::string Decode(std::span<const int32_t> ids, bool skip_special_tokens) const override;
  std::string TokenText(int32_t id) const override;
  bool IsSpecial(int32_t id) const override;
  std::unique_ptr<DecodeStream> StartDecoding(bool skip_special_tokens) const override;

 private:
  class Stream;
  struct AddedEntry {
    std::string text;  // what the decoder gets
    bool special;
  };

  ComposedTokenizer(TokenizerComponents parts, AddedTokenFinder raw, AddedTokenFinder normalized,
                    absl::flat_hash_map<int32_t, AddedEntry> added,
                    absl::flat_hash_set<std::string> specials);

  // `at_start`: the whole text begins with `text`.
  void EncodeBetweenAdded(std::string_view text, bool at_start, std::vector<int32_t>& ids) const;
  void EncodeNormalized(std::string_view text, bool at_start, std::vector<int32_t>& ids) const;
  // The string of a token, an added one first; null where there is none.
  const std::string* StringOf(int32_t id) const;

  TokenizerComponents parts_;
  AddedTokenFinder raw_finder_;         // for tokens that are looked for before normalisation
  AddedTokenFinder normalized_finder_;  // and after it
  absl::flat_hash_map<int32_t, AddedEntry> added_;
  // Contents of the special ones. Decoding leaves out what is spelled so, as Hugging Face does: a
  // special token that normalisation changes stays.
  absl::flat_hash_set<std::string> specials_;
  int32_t vocab_size_ = 0;
};

}  // namespace hydrant::engine

#endif  // HYDRANT_ENGINE_TOKENIZER_COMPOSED_TOKENIZER_H_
