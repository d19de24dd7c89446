// Hugging Face "normalizer" components: text to text, before it is cut into pieces.

#ifndef HYDRANT_ENGINE_TOKENIZER_NORMALIZER_H_
#define HYDRANT_ENGINE_TOKENIZER_NORMALIZER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/tokenizer/json_node.h"
#include "engine/tokenizer/text_pattern.h"

namespace hydrant::engine {

class Normalizer {
 public:
  // Prepend, Replace and Sequence; UNIMPLEMENTED names any other.
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

class NormalizerSequence : public Normalizer {
 public:
  explicit NormalizerSequence(std::vector<std::unique_ptr<Normalizer>> steps);
  std::string Normalize(std::string text) const override;

 private:
  std::vector<std::unique_ptr<Normalizer>> steps_;
};

}  // namespace hydrant::engine

#endif  // HYDRANT_ENGINE_TOKENIZER_NORMALIZER_H_
