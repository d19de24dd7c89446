#include "engine/tokenizer/gguf_pre_tokenizers.h"

#include <string>
#include <utility>
#include <vector>

namespace hydrant::engine {
namespace {

// How a name cuts: regular expressions one after the other, each match a piece, then the bytes'
// spelling. kGpt2 stands for GPT-2's own expression, which goes with the spelling.
enum class Cut {
  kGpt2,
  kDigitsGpt2,
  kFalcon,
  kLlama3,
  kQwen2,
  kQwen35,
  kDeepSeekLlm,
  kDeepSeekCoder,
  kDeepSeek3,
  kBloom,
  kBloomDigits,
  kTekken,
  kGpt4o,
  kBailing,
  kSeed,
};

struct Name {
  std::string_view name;
  Cut cut;
  bool nfc = false;
  bool ignore_merges = false;
  bool add_bos = false;
};

constexpr Name kNames[] = {
    // Files from before the key was there hold vocabularies of GPT-2's kind.
    {"", Cut::kGpt2},
    {"default", Cut::kGpt2},
    {"gpt-2", Cut::kGpt2},
    {"phi-2", Cut::kGpt2},
    {"opt", Cut::kGpt2},
    {"gpt-neox", Cut::kGpt2, /*nfc=*/true},
    {"mpt", Cut::kGpt2, /*nfc=*/true},
    {"olmo", Cut::kGpt2, /*nfc=*/true},
    {"jais", Cut::kGpt2},
    {"trillion", Cut::kGpt2},
    {"exaone4", Cut::kGpt2},
    {"gigachat", Cut::kGpt2},
    {"mellum", Cut::kGpt2},
    {"a.x-4.0", Cut::kGpt2},
    {"granite-docling", Cut::kGpt2},
    {"smollm", Cut::kDigitsGpt2},
    {"starcoder", Cut::kDigitsGpt2},
    {"refact", Cut::kDigitsGpt2},
    {"command-r", Cut::kDigitsGpt2, /*nfc=*/true},
    {"codeshell", Cut::kDigitsGpt2},
    {"exaone", Cut::kDigitsGpt2},
    {"minerva-7b", Cut::kDigitsGpt2},
    {"falcon", Cut::kFalcon},
    {"llama-bpe", Cut::kLlama3, false, /*ignore_merges=*/true, /*add_bos=*/true},
    {"llama-v3", Cut::kLlama3, false, true, true},
    {"llama3", Cut::kLlama3, false, true, true},
    {"falcon3", Cut::kLlama3, false, true, true},
    {"falcon-h1", Cut::kLlama3, false, true, true},
    {"pixtral", Cut::kLlama3, false, true, true},
    {"midm-2.0", Cut::kLlama3, false, true, true},
    {"lfm2", Cut::kLlama3, false, true, true},
    {"dbrx", Cut::kLlama3},
    {"smaug-bpe", Cut::kLlama3},
    {"glm4", Cut::kLlama3},
    {"chatglm-bpe", Cut::kLlama3},
    {"qwen2", Cut::kQwen2, /*nfc=*/true},
    {"deepseek-r1-qwen", Cut::kQwen2},
    {"stablelm2", Cut::kQwen2},
    {"hunyuan", Cut::kQwen2},
    {"megrez", Cut::kQwen2, /*nfc=*/true},
    {"solar-open", Cut::kQwen2},
    {"grok-2", Cut::kQwen2},
    {"qwen35", Cut::kQwen35, /*nfc=*/true},
    {"deepseek-llm", Cut::kDeepSeekLlm},
    {"deepseek-coder", Cut::kDeepSeekCoder},
    {"deepseek-v3", Cut::kDeepSeek3},
    {"hunyuan-dense", Cut::kDeepSeek3},
    {"joyai-llm", Cut::kDeepSeek3},
    {"bloom", Cut::kBloom},
    {"poro-chat", Cut::kBloom},
    {"gpt3-finnish", Cut::kBloom},
    {"viking", Cut::kBloomDigits},
    {"tekken", Cut::kTekken, false, /*ignore_merges=*/true, /*add_bos=*/true},
    {"gpt-4o", Cut::kGpt4o},
    {"llama4", Cut::kGpt4o},
    {"kanana2", Cut::kGpt4o},
    {"bailingmoe", Cut::kBailing},
    {"bailingmoe2", Cut::kBailing},
    {"llada-moe", Cut::kBailing},
    {"seed-coder", Cut::kSeed},
};

constexpr std::string_view kDigit = R"(\p{N})";
constexpr std::string_view kLineEnd = R"([\r\n])";
constexpr std::string_view kIdeographs = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+";

// What most of the newer expressions end with.
#define HYDRANT_SPACES R"(\s*[\r\n]+|\s+(?!\S)|\s+)"
#define HYDRANT_CONTRACTIONS R"((?i:'s|'t|'re|'ve|'m|'ll|'d))"
// A word in capitals first or in small letters last, as o200k_base has it.
#define HYDRANT_CASED_1 \
  R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
#define HYDRANT_CASED_2 \
  R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"

// The cased letters of Latin, Greek, Cyrillic and their like, as Unicode had them.
constexpr std::string_view kDeepSeekLetters =
    "\\s?[A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-"
    "\u02af"
    "\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-"
    "\u03f5"
    "\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba"
    "\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45"
    "\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe"
    "\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-"
    "\u1ffc\u2102"
    "\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139"
    "\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-"
    "\u2cee\u2cf2\u2cf3"
    "\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06"
    "\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3"
    "\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df"
    "\U0001e900-\U0001e943]+";
constexpr std::string_view kDeepSeekPunctuation =
    "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+";

std::vector<std::string_view> Expressions(Cut cut) {
  switch (cut) {
    case Cut::kGpt2:
    case Cut::kFalcon:
      return {};
    case Cut::kDigitsGpt2:
      return {kDigit};
    case Cut::kLlama3:
      return {HYDRANT_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
                                   R"( ?[^\s\p{L}\p{N}]+[\r\n]*|)" HYDRANT_SPACES};
    case Cut::kQwen2:
      return {HYDRANT_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
                                   R"( ?[^\s\p{L}\p{N}]+[\r\n]*|)" HYDRANT_SPACES};
    case Cut::kQwen35:
      return {HYDRANT_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|)"
                                   R"( ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|)" HYDRANT_SPACES};
    case Cut::kDeepSeekLlm:
      return {kLineEnd, kDeepSeekLetters, kDeepSeekPunctuation, R"(\s+$)", kIdeographs, kDigit};
    case Cut::kDeepSeekCoder:
      return {kLineEnd, R"(\s?\p{L}+)", R"(\s?\p{P}+)", kIdeographs, kDigit};
    case Cut::kDeepSeek3:
      return {
          R"(\p{N}{1,3})", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
          R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|)"
          R"( ?[\p{P}\p{S}]+[\r\n]*|)" HYDRANT_SPACES};
    case Cut::kBloom:
      return {" ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+"};
    case Cut::kBloomDigits:
      return {Expressions(Cut::kBloom)[0], kDigit};
    case Cut::kTekken:
      return {HYDRANT_CASED_1 "|" HYDRANT_CASED_2
                              R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|)" HYDRANT_SPACES};
    case Cut::kGpt4o:
      return {HYDRANT_CASED_1 HYDRANT_CONTRACTIONS
              "?|" HYDRANT_CASED_2 HYDRANT_CONTRACTIONS
              R"(?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|)" HYDRANT_SPACES};
    case Cut::kBailing:
      return {R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|)"
              R"(\s*[\r\n]|\s+(?!\S)|\s+)"};
    case Cut::kSeed:
      return {HYDRANT_CONTRACTIONS
              R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|)" HYDRANT_SPACES};
  }
  return {};
}

#undef HYDRANT_SPACES
#undef HYDRANT_CONTRACTIONS
#undef HYDRANT_CASED_1
#undef HYDRANT_CASED_2

class Steps {
 public:
  void Split(std::string_view expression, SplitBehavior behavior) {
    absl::StatusOr<TextPattern> pattern = TextPattern::Regexp(expression);
    if (!pattern.ok()) {
      status_.Update(pattern.status());
      return;
    }
    steps_.push_back(
        std::make_unique<SplitPreTokenizer>(*std::move(pattern), behavior, /*invert=*/false));
  }
  void ByteLevel(bool use_regex) {
    auto step = ByteLevelPreTokenizer::Create(/*add_prefix_space=*/false, use_regex);
    status_.Update(step.status());
    if (step.ok()) steps_.push_back(*std::move(step));
  }
  absl::StatusOr<std::unique_ptr<PreTokenizer>> Take() {
    if (!status_.ok()) return status_;
    return std::make_unique<PreTokenizerSequence>(std::move(steps_));
  }

 private:
  std::vector<std::unique_ptr<PreTokenizer>> steps_;
  absl::Status status_;
};

absl::StatusOr<std::unique_ptr<PreTokenizer>> Make(Cut cut) {
  Steps steps;
  if (cut == Cut::kFalcon) {
    // Digits are cut after the spelling, in which some bytes look like digits.
    steps.Split(R"([\p{P}$+<=>^`|~])", SplitBehavior::kContiguous);
    steps.ByteLevel(/*use_regex=*/true);
    steps.Split(kDigit, SplitBehavior::kContiguous);
    steps.Split("[0-9][0-9][0-9]", SplitBehavior::kIsolated);
    return steps.Take();
  }
  for (const std::string_view expression : Expressions(cut)) {
    steps.Split(expression, SplitBehavior::kIsolated);
  }
  steps.ByteLevel(/*use_regex=*/cut == Cut::kGpt2 || cut == Cut::kDigitsGpt2);
  return steps.Take();
}

}  // namespace

absl::StatusOr<GgufPreTokenizer> PreTokenizerOfGgufName(std::string_view name) {
  for (const Name& known : kNames) {
    if (known.name != name) continue;
    absl::StatusOr<std::unique_ptr<PreTokenizer>> made = Make(known.cut);
    if (!made.ok()) return made.status();
    return GgufPreTokenizer{*std::move(made), known.nfc, known.ignore_merges, known.add_bos};
  }
  return absl::NotFoundError("unknown pre-tokenizer");
}

}  // namespace hydrant::engine
