// Text to token ids and back, equal token for token to Hugging Face tokenizers. Built from GGUF
// metadata or from tokenizer.json. Immutable after construction: every const method may be called
// from several threads.

#ifndef HYDRANT_ENGINE_TOKENIZER_TOKENIZER_H_
#define HYDRANT_ENGINE_TOKENIZER_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace hydrant::engine {

namespace weights {
class GgufFile;
}

// The decoder's state within one text: what IncrementalDetokenizer stands on.
class DecodeStream {
 public:
  virtual ~DecodeStream() = default;
  virtual std::string Add(int32_t id) = 0;
  virtual std::string Flush() = 0;
};

class Tokenizer {
 public:
  // An unknown component is an error that names it.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> FromGguf(const weights::GgufFile& file);
  // A Hugging Face directory: tokenizer.json, and tokenizer_config.json when present.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> FromDirectory(const std::string& path);

  virtual ~Tokenizer() = default;

  virtual int32_t vocab_size() const = 0;
  virtual std::optional<int32_t> bos_id() const = 0;
  virtual std::vector<int32_t> eos_ids() const = 0;  // that the tokenizer's own metadata names
  // The special tokens by the names that chat templates know them by: {"bos_token", "<s>"} …
  virtual std::vector<std::pair<std::string, std::string>> named_tokens() const = 0;

  // `add_special_tokens`: what the tokenizer itself puts around a text (bos), not what is written
  // in the text: special tokens spelled out in it are always recognised. Any bytes are accepted;
  // invalid UTF-8 is encoded as Hugging Face encodes U+FFFD.
  virtual std::vector<int32_t> Encode(std::string_view text, bool add_special_tokens) const = 0;

  // Invalid ids are skipped. The result is valid UTF-8 (broken bytes become U+FFFD).
  virtual std::string Decode(std::span<const int32_t> ids, bool skip_special_tokens) const = 0;

  // One token on its own, for logprobs; may hold U+FFFD.
  virtual std::string TokenText(int32_t id) const = 0;
  virtual bool IsSpecial(int32_t id) const = 0;

  // The stream must not outlive the tokenizer.
  virtual std::unique_ptr<DecodeStream> StartDecoding(bool skip_special_tokens) const = 0;
};

// Turns a growing list of ids into text: the concatenation of what Add and Flush return equals
// Decode of all ids, and no return value ends inside a UTF-8 character. `tokenizer` must outlive
// it.
class IncrementalDetokenizer {
 public:
  IncrementalDetokenizer(const Tokenizer& tokenizer, bool skip_special_tokens);
  ~IncrementalDetokenizer();
  IncrementalDetokenizer(IncrementalDetokenizer&&) noexcept;

  // Amortised O(1): does not decode from the start.
  std::string Add(int32_t id);
  // What is held back (an unfinished character becomes U+FFFD). Nothing may be added afterwards.
  std::string Flush();

 private:
  std::unique_ptr<DecodeStream> stream_;
};

}  // namespace hydrant::engine

#endif  // HYDRANT_ENGINE_TOKENIZER_TOKENIZER_H_
