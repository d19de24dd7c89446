// Hugging Face "pre_tokenizer" components: they cut a text into the pieces that the model tokenises
// one by one, and may respell it.

#ifndef HYDRANT_ENGINE_TOKENIZER_PRE_TOKENIZER_H_
#define HYDRANT_ENGINE_TOKENIZER_PRE_TOKENIZER_H_

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/tokenizer/json_node.h"
#include "engine/tokenizer/text_pattern.h"

namespace hydrant::engine {

// Pieces of a text, in order, none empty.
class Pieces {
 public:
  // `at_start`: `text` begins where the whole text to encode begins.
  Pieces(std::string text, bool at_start);

  size_t size() const { return ranges_.size(); }
  std::string_view operator[](size_t i) const;
  // Whether the whole text begins with piece i.
  bool IsFirstOfText(size_t i) const { return i == 0 && first_at_start_; }

  // Cuts every piece at the matches of `pattern`.
  void Split(const TextPattern& pattern, SplitBehavior behavior, bool invert);
  // Cuts every piece where its script changes.
  void SplitAtScripts();
  // Replaces every piece by what `respell(i, piece, out)` appends to `out`.
  template <typename Function>
  void Respell(Function respell) {
    std::string text;
    text.reserve(text_.size() + text_.size() / 2);
    for (size_t i = 0; i < ranges_.size(); ++i) {
      const size_t begin = text.size();
      respell(i, (*this)[i], text);
      ranges_[i] = {begin, text.size()};
    }
    text_ = std::move(text);
  }

 private:
  // `cut` will be the ranges: whether the first still begins the text.
  void KeepStart(const std::vector<TextRange>& cut);

  std::string text_;
  std::vector<TextRange> ranges_;
  bool first_at_start_;
};

class PreTokenizer {
 public:
  // UNIMPLEMENTED names a component that is not known.
  static absl::StatusOr<std::unique_ptr<PreTokenizer>> FromJson(const JsonNode& json);

  virtual ~PreTokenizer() = default;
  virtual void Apply(Pieces& pieces) const = 0;
};

// Split, and those that are a Split by another name: Digits, Whitespace, WhitespaceSplit.
class SplitPreTokenizer : public PreTokenizer {
 public:
  SplitPreTokenizer(TextPattern pattern, SplitBehavior behavior, bool invert);
  void Apply(Pieces& pieces) const override;

 private:
  TextPattern pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

// Cuts as GPT-2 does (`gpt2_pattern`, where given) and spells every byte as a character.
class ByteLevelPreTokenizer : public PreTokenizer {
 public:
  static absl::StatusOr<std::unique_ptr<PreTokenizer>> Create(bool add_prefix_space,
                                                              bool use_regex);
  void Apply(Pieces& pieces) const override;

 private:
  explicit ByteLevelPreTokenizer(bool add_prefix_space);
  bool add_prefix_space_;
  std::unique_ptr<TextPattern> gpt2_pattern_;  // may be null
};

// SentencePiece's: spaces become a visible character, and one is put in front.
class MetaspacePreTokenizer : public PreTokenizer {
 public:
  enum class Prepend { kNever, kFirst, kAlways };  // kFirst: only where the whole text begins
  MetaspacePreTokenizer(std::string replacement, Prepend prepend, bool split);
  void Apply(Pieces& pieces) const override;

 private:
  std::string replacement_;
  Prepend prepend_;
  bool split_;
  TextPattern delimiter_;
};
// "prepend_scheme", or the older "add_prefix_space", of a Metaspace component.
absl::StatusOr<MetaspacePreTokenizer::Prepend> MetaspacePrependFromJson(const JsonNode& json);

class ScriptPreTokenizer : public PreTokenizer {
 public:
  void Apply(Pieces& pieces) const override { pieces.SplitAtScripts(); }
};

class PreTokenizerSequence : public PreTokenizer {
 public:
  explicit PreTokenizerSequence(std::vector<std::unique_ptr<PreTokenizer>> steps);
  void Apply(Pieces& pieces) const override;

 private:
  std::vector<std::unique_ptr<PreTokenizer>> steps_;
};

}  // namespace hydrant::engine

#endif  // HYDRANT_ENGINE_TOKENIZER_PRE_TOKENIZER_H_
