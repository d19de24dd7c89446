// The pre-tokenizers by their names in tokenizer.json.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/tokenizer/pre_tokenizer.h"
#include "engine/tokenizer/unicode.h"

namespace hydrant::engine {
namespace {

using Result = absl::StatusOr<std::unique_ptr<PreTokenizer>>;
using Prepend = MetaspacePreTokenizer::Prepend;

Result Split(absl::StatusOr<TextPattern> pattern, SplitBehavior behavior, bool invert) {
  if (!pattern.ok()) return pattern.status();
  return std::make_unique<SplitPreTokenizer>(*std::move(pattern), behavior, invert);
}

// Cuts at the characters that have a trait.
Result SplitAt(Trait trait, SplitBehavior behavior) {
  return Split(TextPattern::Regexp(absl::StrCat("[", ClassOfTrait(trait), "]")), behavior,
               /*invert=*/false);
}

// Runs of word characters, and of others; white space goes.
Result Words() {
  const std::string word = ClassOfTrait(kWord);
  return Split(TextPattern::Regexp(absl::StrCat("[", word, "]+|[^", word, "\\s]+")),
               SplitBehavior::kRemoved, /*invert=*/true);
}

Result SplitFromJson(const JsonNode& json) {
  const absl::StatusOr<JsonNode> pattern = json.Member("pattern");
  if (!pattern.ok()) return pattern.status();
  const absl::StatusOr<SplitBehavior> behavior = SplitBehaviorFromJson(json, "behavior");
  if (!behavior.ok()) return behavior.status();
  const absl::StatusOr<bool> invert = json.Bool("invert", false);
  if (!invert.ok()) return invert.status();
  return Split(TextPattern::FromJson(*pattern), *behavior, *invert);
}

Result ByteLevelFromJson(const JsonNode& json) {
  const absl::StatusOr<bool> add_prefix_space = json.Bool("add_prefix_space", true);
  if (!add_prefix_space.ok()) return add_prefix_space.status();
  const absl::StatusOr<bool> use_regex = json.Bool("use_regex", true);
  if (!use_regex.ok()) return use_regex.status();
  return ByteLevelPreTokenizer::Create(*add_prefix_space, *use_regex);
}

Result DigitsFromJson(const JsonNode& json) {
  const absl::StatusOr<bool> individual = json.Bool("individual_digits", false);
  if (!individual.ok()) return individual.status();
  return SplitAt(kNumeric, *individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous);
}

Result MetaspaceFromJson(const JsonNode& json) {
  const absl::StatusOr<Prepend> prepend = MetaspacePrependFromJson(json);
  if (!prepend.ok()) return prepend.status();
  const absl::StatusOr<bool> split = json.Bool("split", true);
  if (!split.ok()) return split.status();
  absl::StatusOr<std::string> replacement = json.Character("replacement");
  if (!replacement.ok()) return replacement.status();
  return std::make_unique<MetaspacePreTokenizer>(*std::move(replacement), *prepend, *split);
}

Result PunctuationFromJson(const JsonNode& json) {
  SplitBehavior behavior = SplitBehavior::kIsolated;
  if (json.Find("behavior")) {
    const absl::StatusOr<SplitBehavior> given = SplitBehaviorFromJson(json, "behavior");
    if (!given.ok()) return given.status();
    behavior = *given;
  }
  return SplitAt(kPunctuation, behavior);
}

Result WhiteSpaceSplit() {
  return Split(TextPattern::Regexp(R"(\s)"), SplitBehavior::kRemoved, /*invert=*/false);
}

Result IsolatedPunctuation() { return SplitAt(kPunctuation, SplitBehavior::kIsolated); }

Result Bert() {
  std::vector<std::unique_ptr<PreTokenizer>> steps;
  for (const auto make : {WhiteSpaceSplit, IsolatedPunctuation}) {
    Result step = make();
    if (!step.ok()) return step.status();
    steps.push_back(*std::move(step));
  }
  return std::make_unique<PreTokenizerSequence>(std::move(steps));
}

Result CharDelimiterFromJson(const JsonNode& json) {
  absl::StatusOr<std::string> delimiter = json.Character("delimiter");
  if (!delimiter.ok()) return delimiter.status();
  return Split(TextPattern::Literal(*std::move(delimiter)), SplitBehavior::kRemoved,
               /*invert=*/false);
}

Result FixedLengthFromJson(const JsonNode& json) {
  int64_t length = 5;
  if (json.Find("length")) {
    const absl::StatusOr<int64_t> given = json.Int("length");
    if (!given.ok()) return given.status();
    length = *given;
  }
  constexpr int64_t kMaxLength = 65535;  // of a repetition in a regular expression
  if (length < 1 || length > kMaxLength) return json.Invalid("\"length\" is out of range");
  return Split(TextPattern::Regexp(absl::StrCat("(?m:.{1,", length, "})")),
               SplitBehavior::kIsolated, /*invert=*/false);
}

Result SequenceFromJson(const JsonNode& json) {
  const absl::StatusOr<JsonNode> member = json.Member("pretokenizers");
  if (!member.ok()) return member.status();
  const absl::StatusOr<std::vector<JsonNode>> items = member->AsArray();
  if (!items.ok()) return items.status();
  std::vector<std::unique_ptr<PreTokenizer>> steps;
  for (const JsonNode& item : *items) {
    Result step = PreTokenizer::FromJson(item);
    if (!step.ok()) return step.status();
    steps.push_back(*std::move(step));
  }
  return std::make_unique<PreTokenizerSequence>(std::move(steps));
}

}  // namespace

absl::StatusOr<Prepend> MetaspacePrependFromJson(const JsonNode& json) {
  const absl::StatusOr<bool> add_prefix_space = json.Bool("add_prefix_space", true);
  if (!add_prefix_space.ok()) return add_prefix_space.status();
  if (!json.Find("prepend_scheme")) return *add_prefix_space ? Prepend::kAlways : Prepend::kNever;
  const absl::StatusOr<std::string> scheme = json.String("prepend_scheme");
  if (!scheme.ok()) return scheme.status();
  if (!*add_prefix_space && *scheme != "never") {
    return json.Invalid("\"add_prefix_space\" and \"prepend_scheme\" contradict each other");
  }
  if (*scheme == "never") return Prepend::kNever;
  if (*scheme == "first") return Prepend::kFirst;
  if (*scheme == "always") return Prepend::kAlways;
  return json.Unsupported(absl::StrCat("prepend_scheme \"", *scheme, "\""));
}

absl::StatusOr<std::unique_ptr<PreTokenizer>> PreTokenizer::FromJson(const JsonNode& json) {
  const absl::StatusOr<std::string> type = json.String("type");
  if (!type.ok()) return type.status();
  if (*type == "Sequence") return SequenceFromJson(json);
  if (*type == "ByteLevel") return ByteLevelFromJson(json);
  if (*type == "Split") return SplitFromJson(json);
  if (*type == "Digits") return DigitsFromJson(json);
  if (*type == "Metaspace") return MetaspaceFromJson(json);
  if (*type == "Whitespace") return Words();
  if (*type == "UnicodeScripts") return std::make_unique<ScriptPreTokenizer>();
  if (*type == "WhitespaceSplit") return WhiteSpaceSplit();
  if (*type == "Punctuation") return PunctuationFromJson(json);
  if (*type == "BertPreTokenizer") return Bert();
  if (*type == "CharDelimiterSplit") return CharDelimiterFromJson(json);
  if (*type == "FixedLength") return FixedLengthFromJson(json);
  return json.Unsupported(absl::StrCat("pre-tokenizer ", *type));
}

}  // namespace hydrant::engine
