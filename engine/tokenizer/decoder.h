// Hugging Face "decoder" components: the tokens' strings to text. Each is a stage of a stream, so
// that decoding bit by bit and decoding at once are the same code.

#ifndef HYDRANT_ENGINE_TOKENIZER_DECODER_H_
#define HYDRANT_ENGINE_TOKENIZER_DECODER_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/tokenizer/json_node.h"

namespace hydrant::engine {

// A token's string, or a part of it: some stages join all tokens to one, which then comes in parts.
// Always whole characters. A token ends with a part, maybe an empty one, that `ends`.
struct TokenPart {
  std::string text;
  bool begins = true;
  bool ends = true;
};

// One stage at work on one stream.
class DecodeStage {
 public:
  virtual ~DecodeStage() = default;
  // Appends to `out` what is certain by now.
  virtual void Push(TokenPart part, std::vector<TokenPart>& out) = 0;
  // No part follows.
  virtual void Finish(std::vector<TokenPart>& out) {}
};

// Immutable; makes stages.
class Decoder {
 public:
  // UNIMPLEMENTED names a component that is not known.
  static absl::StatusOr<std::unique_ptr<Decoder>> FromJson(const JsonNode& json);
  static std::unique_ptr<Decoder> ByteLevel();
  // SentencePiece's, for BPE: visible spaces become spaces, byte tokens their bytes, and the space
  // that was put in front goes.
  static std::unique_ptr<Decoder> SentencePiece(bool drop_first_space);
  static std::unique_ptr<Decoder> Metaspace(std::string replacement, bool drop_first_space);
  // What Hugging Face does without a decoder: a space between tokens.
  static std::unique_ptr<Decoder> SpaceBetween();

  virtual ~Decoder() = default;
  // `mid_text`: the stream does not begin where the text does, so nothing is taken off its front.
  virtual std::unique_ptr<DecodeStage> Start(bool mid_text) const = 0;
};

}  // namespace hydrant::engine

#endif  // HYDRANT_ENGINE_TOKENIZER_DECODER_H_
