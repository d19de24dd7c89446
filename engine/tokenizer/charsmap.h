// SentencePiece's precompiled normalization rules, as Hugging Face's Precompiled normalizer reads
// and applies them (crate spm_precompiled): a double-array trie (darts-clone) of texts, and what
// they become.

#ifndef HYDRANT_ENGINE_TOKENIZER_CHARSMAP_H_
#define HYDRANT_ENGINE_TOKENIZER_CHARSMAP_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/tokenizer/normalizer.h"
#include "engine/tokenizer/regex.h"

namespace hydrant::engine {

class CharsmapNormalizer : public Normalizer {
 public:
  // `data`: the trie's size in bytes (u32, little endian), the trie (u32 each), then texts that end
  // with a zero byte. INVALID_ARGUMENT when it is cut short.
  static absl::StatusOr<std::unique_ptr<Normalizer>> Create(std::string_view data);

  std::string Normalize(std::string text) const override;

 private:
  CharsmapNormalizer(std::vector<uint32_t> trie, std::string texts, Regex grapheme);
  // What `chunk` becomes; nullopt: stays as it is.
  std::optional<std::string_view> Replacement(std::string_view chunk) const;
  void AppendNormalized(std::string_view grapheme, std::string& out) const;

  std::vector<uint32_t> trie_;
  std::string texts_;
  Regex grapheme_;
};

// The bytes that `text` spells in base64; nullopt when it is none.
std::optional<std::string> DecodeBase64(std::string_view text);

}  // namespace hydrant::engine

#endif  // HYDRANT_ENGINE_TOKENIZER_CHARSMAP_H_
