// The stages that decoders (decoder.h) are made of; each does what Hugging Face's decoder of its
// name does with the list of all tokens.

#ifndef HYDRANT_ENGINE_TOKENIZER_DECODE_STAGES_H_
#define HYDRANT_ENGINE_TOKENIZER_DECODE_STAGES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/tokenizer/decoder.h"
#include "engine/tokenizer/text_pattern.h"

namespace hydrant::engine {

// For stages that must see a token whole: puts its parts together.
class WholeTokenStage : public DecodeStage {
 public:
  void Push(TokenPart part, std::vector<TokenPart>& out) final;

 protected:
  virtual void PushToken(std::string token, std::vector<TokenPart>& out) = 0;

 private:
  std::string token_;
};

class ReplaceStage : public WholeTokenStage {
 public:
  ReplaceStage(std::shared_ptr<const TextPattern> pattern, std::string content);

 protected:
  void PushToken(std::string token, std::vector<TokenPart>& out) override;

 private:
  std::shared_ptr<const TextPattern> pattern_;
  std::string content_;
};

// A run of byte tokens <0xXX> is text if all of it is UTF-8, and one U+FFFD a byte otherwise. It is
// held back until it has ended or is known to be broken.
class ByteFallbackStage : public WholeTokenStage {
 public:
  void Finish(std::vector<TokenPart>& out) override;

 protected:
  void PushToken(std::string token, std::vector<TokenPart>& out) override;

 private:
  void EndRun(std::vector<TokenPart>& out);
  void BreakRun(std::vector<TokenPart>& out);

  std::string run_;
  size_t checked_ = 0;  // so many bytes of it are whole characters
  bool broken_ = false;
};

// All tokens become one.
class FuseStage : public DecodeStage {
 public:
  explicit FuseStage(bool begun) : begun_(begun) {}
  void Push(TokenPart part, std::vector<TokenPart>& out) override;
  void Finish(std::vector<TokenPart>& out) override;

 private:
  bool begun_;
};

// Takes `content`, one character, off each token: up to `start` times from its front and up to
// `stop` times from its end.
class StripStage : public DecodeStage {
 public:
  StripStage(std::string content, int64_t start, int64_t stop);
  void Push(TokenPart part, std::vector<TokenPart>& out) override;

 private:
  std::string content_;
  int64_t start_, stop_;
  int64_t front_left_ = 0;  // how many more may go from the front of this token
  std::string held_;        // copies of `content` that may turn out to be its end
};

// The bytes that all tokens' characters stand for become one text; broken ones become U+FFFD.
class ByteLevelStage : public WholeTokenStage {
 public:
  explicit ByteLevelStage(bool begun) : begun_(begun) {}
  void Finish(std::vector<TokenPart>& out) override;

 protected:
  void PushToken(std::string token, std::vector<TokenPart>& out) override;

 private:
  bool begun_;
  std::string unfinished_;  // a proper prefix of a character
};

// `replacement` becomes a space, and vanishes from the first token if a space was put before it.
class MetaspaceStage : public DecodeStage {
 public:
  MetaspaceStage(std::string replacement, bool drop_in_first);
  void Push(TokenPart part, std::vector<TokenPart>& out) override;

 private:
  std::string replacement_;
  bool drop_;
};

// WordPiece: a token without `prefix` begins a word. `cleanup`: the spaces before punctuation and
// the parts of English contractions go.
class WordPieceStage : public WholeTokenStage {
 public:
  WordPieceStage(std::string prefix, bool cleanup, bool begun)
      : prefix_(std::move(prefix)), cleanup_(cleanup), begun_(begun) {}

 protected:
  void PushToken(std::string token, std::vector<TokenPart>& out) override;

 private:
  std::string prefix_;
  bool cleanup_;
  bool begun_;
};

// BPEDecoder: `suffix` ends a word, so it becomes a space, but in the last token nothing.
class WordEndStage : public WholeTokenStage {
 public:
  explicit WordEndStage(std::string suffix) : suffix_(std::move(suffix)) {}
  void Finish(std::vector<TokenPart>& out) override;

 protected:
  void PushToken(std::string token, std::vector<TokenPart>& out) override;

 private:
  std::string Replaced(std::string_view token, std::string_view with) const;

  std::string suffix_;
  std::optional<std::string> held_;  // may be the last token
};

// CTC: of equal neighbours one stays, `pad` goes, and `word_delimiter` becomes a space.
class CtcStage : public WholeTokenStage {
 public:
  CtcStage(std::string pad, std::string word_delimiter, bool cleanup)
      : pad_(std::move(pad)), word_delimiter_(std::move(word_delimiter)), cleanup_(cleanup) {}

 protected:
  void PushToken(std::string token, std::vector<TokenPart>& out) override;

 private:
  std::string pad_, word_delimiter_;
  bool cleanup_;
  std::optional<std::string> previous_;
};

class SpaceBetweenStage : public DecodeStage {
 public:
  void Push(TokenPart part, std::vector<TokenPart>& out) override;

 private:
  bool first_ = true;
};

}  // namespace hydrant::engine

#endif  // HYDRANT_ENGINE_TOKENIZER_DECODE_STAGES_H_
