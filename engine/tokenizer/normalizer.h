// Hugging Face "normalizer" components: text to text, before it is cut into pieces.

#ifndef HYDRANT_ENGINE_TOKENIZER_NORMALIZER_H_
#define HYDRANT_ENGINE_TOKENIZER_NORMALIZER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/tokenizer/json_node.h"
#include "engine/tokenizer/text_pattern.h"
#include "engine/tokenizer/unicode.h"

namespace hydrant::engine {

class Normalizer {
 public:
  // UNIMPLEMENTED names a component that is not known.
  static absl::StatusOr<std::unique_ptr<Normalizer>> FromJson(const JsonNode& json);

  virtual ~Normalizer() = default;
  // `text` is valid UTF-8, and so is the result.
  virtual std::string Normalize(std::string text) const = 0;
};

// Puts a string before a text that is not empty.
class PrependNormalizer : public Normalizer {
 public:
  explicit PrependNormalizer(std::string prefix);
  std::string Normalize(std::string text) const override;

 private:
  std::string prefix_;
};

class ReplaceNormalizer : public Normalizer {
 public:
  ReplaceNormalizer(TextPattern pattern, std::string content);
  std::string Normalize(std::string text) const override;

 private:
  TextPattern pattern_;
  std::string content_;
};

// NFC, NFD, NFKC, NFKD.
class NormalFormNormalizer : public Normalizer {
 public:
  explicit NormalFormNormalizer(NormalForm form) : form_(form) {}
  std::string Normalize(std::string text) const override { return ToNormalForm(text, form_); }

 private:
  NormalForm form_;
};

// Those that look at one character at a time: Lowercase, StripAccents, Nmt.
class CharacterNormalizer : public Normalizer {
 public:
  // Appends what a character becomes.
  using Function = void (*)(char32_t character, std::string& out);
  explicit CharacterNormalizer(Function function) : function_(function) {}
  std::string Normalize(std::string text) const override;

 private:
  Function function_;
};

// White space at the ends.
class StripNormalizer : public Normalizer {
 public:
  StripNormalizer(bool left, bool right) : left_(left), right_(right) {}
  std::string Normalize(std::string text) const override;

 private:
  bool left_, right_;
};

// BERT's: control characters go, white space is a space, Chinese characters stand alone.
class BertNormalizer : public Normalizer {
 public:
  struct Options {
    bool clean_text, handle_chinese_chars, strip_accents, lowercase;
  };
  explicit BertNormalizer(Options options) : options_(options) {}
  std::string Normalize(std::string text) const override;

 private:
  Options options_;
};

// Spells bytes as ByteLevelPreTokenizer does.
class ByteLevelNormalizer : public Normalizer {
 public:
  std::string Normalize(std::string text) const override;
};

class NormalizerSequence : public Normalizer {
 public:
  explicit NormalizerSequence(std::vector<std::unique_ptr<Normalizer>> steps);
  std::string Normalize(std::string text) const override;

 private:
  std::vector<std::unique_ptr<Normalizer>> steps_;
};

}  // namespace hydrant::engine

#endif  // HYDRANT_ENGINE_TOKENIZER_NORMALIZER_H_
