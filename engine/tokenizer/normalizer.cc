#include "engine/tokenizer/normalizer.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace hydrant::engine {
namespace {

absl::StatusOr<std::unique_ptr<Normalizer>> SequenceFromJson(const JsonNode& json) {
  const absl::StatusOr<JsonNode> member = json.Member("normalizers");
  if (!member.ok()) return member.status();
  const absl::StatusOr<std::vector<JsonNode>> items = member->AsArray();
  if (!items.ok()) return items.status();
  std::vector<std::unique_ptr<Normalizer>> steps;
  for (const JsonNode& item : *items) {
    absl::StatusOr<std::unique_ptr<Normalizer>> step = Normalizer::FromJson(item);
    if (!step.ok()) return step.status();
    steps.push_back(*std::move(step));
  }
  return std::make_unique<NormalizerSequence>(std::move(steps));
}

absl::StatusOr<std::unique_ptr<Normalizer>> ReplaceFromJson(const JsonNode& json) {
  const absl::StatusOr<JsonNode> pattern_json = json.Member("pattern");
  if (!pattern_json.ok()) return pattern_json.status();
  absl::StatusOr<TextPattern> pattern = TextPattern::FromJson(*pattern_json);
  if (!pattern.ok()) return pattern.status();
  absl::StatusOr<std::string> content = json.String("content");
  if (!content.ok()) return content.status();
  return std::make_unique<ReplaceNormalizer>(*std::move(pattern), *std::move(content));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Normalizer>> Normalizer::FromJson(const JsonNode& json) {
  const absl::StatusOr<std::string> type = json.String("type");
  if (!type.ok()) return type.status();
  if (*type == "Sequence") return SequenceFromJson(json);
  if (*type == "Replace") return ReplaceFromJson(json);
  if (*type == "Prepend") {
    absl::StatusOr<std::string> prefix = json.String("prepend");
    if (!prefix.ok()) return prefix.status();
    return std::make_unique<PrependNormalizer>(*std::move(prefix));
  }
  return json.Unsupported(absl::StrCat("normalizer ", *type));
}

PrependNormalizer::PrependNormalizer(std::string prefix) : prefix_(std::move(prefix)) {}

std::string PrependNormalizer::Normalize(std::string text) const {
  if (!text.empty()) text.insert(0, prefix_);
  return text;
}

ReplaceNormalizer::ReplaceNormalizer(TextPattern pattern, std::string content)
    : pattern_(std::move(pattern)), content_(std::move(content)) {}

std::string ReplaceNormalizer::Normalize(std::string text) const {
  return pattern_.ReplaceAll(text, content_);
}

NormalizerSequence::NormalizerSequence(std::vector<std::unique_ptr<Normalizer>> steps)
    : steps_(std::move(steps)) {}

std::string NormalizerSequence::Normalize(std::string text) const {
  for (const std::unique_ptr<Normalizer>& step : steps_) text = step->Normalize(std::move(text));
  return text;
}

}  // namespace hydrant::engine
