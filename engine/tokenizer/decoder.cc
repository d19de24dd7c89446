#include "engine/tokenizer/decoder.h"

#include <functional>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/tokenizer/decode_stages.h"
#include "engine/tokenizer/pre_tokenizer.h"

namespace hydrant::engine {
namespace {

using Result = absl::StatusOr<std::unique_ptr<Decoder>>;

// A decoder whose stages need no more than a function that makes one.
class SimpleDecoder : public Decoder {
 public:
  using Make = std::function<std::unique_ptr<DecodeStage>(bool mid_text)>;
  explicit SimpleDecoder(Make make) : make_(std::move(make)) {}
  std::unique_ptr<DecodeStage> Start(bool mid_text) const override { return make_(mid_text); }

 private:
  Make make_;
};

template <typename Make>
std::unique_ptr<Decoder> Simple(Make make) {
  return std::make_unique<SimpleDecoder>(std::move(make));
}

// Each stage's output is the next one's input.
class ChainStage : public DecodeStage {
 public:
  explicit ChainStage(std::vector<std::unique_ptr<DecodeStage>> stages)
      : stages_(std::move(stages)) {}

  void Push(TokenPart part, std::vector<TokenPart>& out) override {
    parts_.clear();
    parts_.push_back(std::move(part));
    Run(out, /*finish=*/false);
  }

  void Finish(std::vector<TokenPart>& out) override {
    parts_.clear();
    Run(out, /*finish=*/true);
  }

 private:
  void Run(std::vector<TokenPart>& out, bool finish) {
    for (const std::unique_ptr<DecodeStage>& stage : stages_) {
      next_.clear();
      for (TokenPart& part : parts_) stage->Push(std::move(part), next_);
      if (finish) stage->Finish(next_);
      parts_.swap(next_);
    }
    for (TokenPart& part : parts_) out.push_back(std::move(part));
  }

  std::vector<std::unique_ptr<DecodeStage>> stages_;
  std::vector<TokenPart> parts_, next_;  // kept for their memory
};

class DecoderSequence : public Decoder {
 public:
  explicit DecoderSequence(std::vector<std::unique_ptr<Decoder>> decoders)
      : decoders_(std::move(decoders)) {}

  std::unique_ptr<DecodeStage> Start(bool mid_text) const override {
    std::vector<std::unique_ptr<DecodeStage>> stages;
    for (const std::unique_ptr<Decoder>& decoder : decoders_) {
      stages.push_back(decoder->Start(mid_text));
    }
    return std::make_unique<ChainStage>(std::move(stages));
  }

 private:
  std::vector<std::unique_ptr<Decoder>> decoders_;
};

Result SequenceFromJson(const JsonNode& json) {
  const absl::StatusOr<JsonNode> member = json.Member("decoders");
  if (!member.ok()) return member.status();
  const absl::StatusOr<std::vector<JsonNode>> items = member->AsArray();
  if (!items.ok()) return items.status();
  std::vector<std::unique_ptr<Decoder>> decoders;
  for (const JsonNode& item : *items) {
    Result decoder = Decoder::FromJson(item);
    if (!decoder.ok()) return decoder.status();
    decoders.push_back(*std::move(decoder));
  }
  return std::make_unique<DecoderSequence>(std::move(decoders));
}

Result ReplaceFromJson(const JsonNode& json) {
  const absl::StatusOr<JsonNode> pattern_json = json.Member("pattern");
  if (!pattern_json.ok()) return pattern_json.status();
  absl::StatusOr<TextPattern> pattern = TextPattern::FromJson(*pattern_json);
  if (!pattern.ok()) return pattern.status();
  const absl::StatusOr<std::string> content = json.String("content");
  if (!content.ok()) return content.status();
  return Simple(
      [pattern = std::make_shared<const TextPattern>(*std::move(pattern)),
       content = *content](bool) { return std::make_unique<ReplaceStage>(pattern, content); });
}

Result StripFromJson(const JsonNode& json) {
  const absl::StatusOr<std::string> content = json.Character("content");
  if (!content.ok()) return content.status();
  const absl::StatusOr<int64_t> start = json.Int("start");
  if (!start.ok()) return start.status();
  const absl::StatusOr<int64_t> stop = json.Int("stop");
  if (!stop.ok()) return stop.status();
  if (*start < 0 || *stop < 0) return json.Invalid("\"start\" or \"stop\" is negative");
  return Simple([content = *content, start = *start, stop = *stop](bool) {
    return std::make_unique<StripStage>(content, start, stop);
  });
}

// A text member of `json`, or `absent`.
absl::StatusOr<std::string> TextOr(const JsonNode& json, std::string_view key,
                                   std::string_view absent) {
  if (!json.Find(key)) return std::string(absent);
  return json.String(key);
}

Result WordPieceFromJson(const JsonNode& json) {
  const absl::StatusOr<std::string> prefix = TextOr(json, "prefix", "##");
  if (!prefix.ok()) return prefix.status();
  const absl::StatusOr<bool> cleanup = json.Bool("cleanup", true);
  if (!cleanup.ok()) return cleanup.status();
  return Simple([prefix = *prefix, cleanup = *cleanup](bool mid_text) {
    return std::make_unique<WordPieceStage>(prefix, cleanup, mid_text);
  });
}

Result BpeFromJson(const JsonNode& json) {
  const absl::StatusOr<std::string> suffix = TextOr(json, "suffix", "</w>");
  if (!suffix.ok()) return suffix.status();
  return Simple([suffix = *suffix](bool) { return std::make_unique<WordEndStage>(suffix); });
}

Result CtcFromJson(const JsonNode& json) {
  const absl::StatusOr<std::string> pad = TextOr(json, "pad_token", "<pad>");
  if (!pad.ok()) return pad.status();
  const absl::StatusOr<std::string> delimiter = TextOr(json, "word_delimiter_token", "|");
  if (!delimiter.ok()) return delimiter.status();
  const absl::StatusOr<bool> cleanup = json.Bool("cleanup", true);
  if (!cleanup.ok()) return cleanup.status();
  return Simple([pad = *pad, delimiter = *delimiter, cleanup = *cleanup](bool) {
    return std::make_unique<CtcStage>(pad, delimiter, cleanup);
  });
}

Result MetaspaceFromJson(const JsonNode& json) {
  const absl::StatusOr<std::string> replacement = json.Character("replacement");
  if (!replacement.ok()) return replacement.status();
  const absl::StatusOr<MetaspacePreTokenizer::Prepend> prepend = MetaspacePrependFromJson(json);
  if (!prepend.ok()) return prepend.status();
  const bool was_prepended = *prepend != MetaspacePreTokenizer::Prepend::kNever;
  return Decoder::Metaspace(*replacement, was_prepended);
}

}  // namespace

Result Decoder::FromJson(const JsonNode& json) {
  const absl::StatusOr<std::string> type = json.String("type");
  if (!type.ok()) return type.status();
  if (*type == "Sequence") return SequenceFromJson(json);
  if (*type == "Replace") return ReplaceFromJson(json);
  if (*type == "Strip") return StripFromJson(json);
  if (*type == "Metaspace") return MetaspaceFromJson(json);
  if (*type == "ByteLevel") return ByteLevel();
  if (*type == "WordPiece") return WordPieceFromJson(json);
  if (*type == "BPEDecoder") return BpeFromJson(json);
  if (*type == "CTC") return CtcFromJson(json);
  if (*type == "ByteFallback") {
    return Simple([](bool) { return std::make_unique<ByteFallbackStage>(); });
  }
  if (*type == "Fuse") {
    return Simple([](bool mid_text) { return std::make_unique<FuseStage>(mid_text); });
  }
  return json.Unsupported(absl::StrCat("decoder ", *type));
}

std::unique_ptr<Decoder> Decoder::ByteLevel() {
  return Simple([](bool mid_text) { return std::make_unique<ByteLevelStage>(mid_text); });
}

std::unique_ptr<Decoder> Decoder::Metaspace(std::string replacement, bool drop_first_space) {
  return Simple([replacement = std::move(replacement), drop_first_space](bool mid_text) {
    return std::make_unique<MetaspaceStage>(replacement, drop_first_space && !mid_text);
  });
}

std::unique_ptr<Decoder> Decoder::SentencePiece(bool drop_first_space) {
  std::vector<std::unique_ptr<Decoder>> decoders;
  const auto pattern = std::make_shared<const TextPattern>(TextPattern::Literal("\u2581"));
  decoders.push_back(
      Simple([pattern](bool) { return std::make_unique<ReplaceStage>(pattern, " "); }));
  decoders.push_back(Simple([](bool) { return std::make_unique<ByteFallbackStage>(); }));
  decoders.push_back(Simple([](bool mid_text) { return std::make_unique<FuseStage>(mid_text); }));
  if (drop_first_space) {
    decoders.push_back(Simple([](bool) { return std::make_unique<StripStage>(" ", 1, 0); }));
  }
  return std::make_unique<DecoderSequence>(std::move(decoders));
}

std::unique_ptr<Decoder> Decoder::SpaceBetween() {
  return Simple([](bool) { return std::make_unique<SpaceBetweenStage>(); });
}

}  // namespace hydrant::engine
