// The normalizers by their names in tokenizer.json.

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/tokenizer/charsmap.h"
#include "engine/tokenizer/normalizer.h"
#include "engine/tokenizer/utf8.h"

namespace hydrant::engine {
namespace {

using Result = absl::StatusOr<std::unique_ptr<Normalizer>>;

Result Form(NormalForm form) { return std::make_unique<NormalFormNormalizer>(form); }

void WithoutMarks(char32_t c, std::string& out) {
  if (!HasTrait(c, kMark)) AppendUtf8(c, out);
}

// What the NMT rules of SentencePiece do to control characters and spaces of other kinds.
void Nmt(char32_t c, std::string& out) {
  const bool gone = (c >= 0x01 && c <= 0x08) || c == 0x0B || (c >= 0x0E && c <= 0x1F) ||
                    c == 0x7F || c == 0x8F || c == 0x9F;
  const bool space = c == 0x09 || c == 0x0A || c == 0x0C || c == 0x0D || c == 0x1680 ||
                     (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                     c == 0xFEFF || c == 0xFFFD;
  if (!gone) AppendUtf8(space ? U' ' : c, out);
}

Result StripFromJson(const JsonNode& json) {
  const absl::StatusOr<bool> left = json.Bool("strip_left", true);
  if (!left.ok()) return left.status();
  const absl::StatusOr<bool> right = json.Bool("strip_right", true);
  if (!right.ok()) return right.status();
  return std::make_unique<StripNormalizer>(*left, *right);
}

Result BertFromJson(const JsonNode& json) {
  BertNormalizer::Options options;
  const absl::StatusOr<bool> lowercase = json.Bool("lowercase", true);
  if (!lowercase.ok()) return lowercase.status();
  options.lowercase = *lowercase;
  for (const auto& [name, option, absent] :
       {std::tuple("clean_text", &options.clean_text, true),
        std::tuple("handle_chinese_chars", &options.handle_chinese_chars, true),
        std::tuple("strip_accents", &options.strip_accents, *lowercase)}) {
    const absl::StatusOr<bool> value = json.Bool(name, absent);
    if (!value.ok()) return value.status();
    *option = *value;
  }
  return std::make_unique<BertNormalizer>(options);
}

Result PrecompiledFromJson(const JsonNode& json) {
  constexpr std::string_view kKey = "precompiled_charsmap";
  if (!json.Find(kKey))
    return std::make_unique<NormalizerSequence>(std::vector<std::unique_ptr<Normalizer>>());
  const absl::StatusOr<std::string> text = json.String(kKey);
  if (!text.ok()) return text.status();
  const std::optional<std::string> bytes = DecodeBase64(*text);
  if (!bytes) return json.Member(kKey)->Invalid("not base64");
  Result made = CharsmapNormalizer::Create(*bytes);
  if (!made.ok()) return json.Member(kKey)->Invalid(std::string(made.status().message()));
  return made;
}

Result SequenceFromJson(const JsonNode& json) {
  const absl::StatusOr<JsonNode> member = json.Member("normalizers");
  if (!member.ok()) return member.status();
  const absl::StatusOr<std::vector<JsonNode>> items = member->AsArray();
  if (!items.ok()) return items.status();
  std::vector<std::unique_ptr<Normalizer>> steps;
  for (const JsonNode& item : *items) {
    Result step = Normalizer::FromJson(item);
    if (!step.ok()) return step.status();
    steps.push_back(*std::move(step));
  }
  return std::make_unique<NormalizerSequence>(std::move(steps));
}

Result ReplaceFromJson(const JsonNode& json) {
  const absl::StatusOr<JsonNode> pattern_json = json.Member("pattern");
  if (!pattern_json.ok()) return pattern_json.status();
  absl::StatusOr<TextPattern> pattern = TextPattern::FromJson(*pattern_json);
  if (!pattern.ok()) return pattern.status();
  absl::StatusOr<std::string> content = json.String("content");
  if (!content.ok()) return content.status();
  return std::make_unique<ReplaceNormalizer>(*std::move(pattern), *std::move(content));
}

}  // namespace

Result Normalizer::FromJson(const JsonNode& json) {
  const absl::StatusOr<std::string> type = json.String("type");
  if (!type.ok()) return type.status();
  if (*type == "Sequence") return SequenceFromJson(json);
  if (*type == "Replace") return ReplaceFromJson(json);
  if (*type == "NFC") return Form(NormalForm::kNfc);
  if (*type == "NFD") return Form(NormalForm::kNfd);
  if (*type == "NFKC") return Form(NormalForm::kNfkc);
  if (*type == "NFKD") return Form(NormalForm::kNfkd);
  if (*type == "Lowercase") return std::make_unique<CharacterNormalizer>(AppendLowerCase);
  if (*type == "StripAccents") return std::make_unique<CharacterNormalizer>(WithoutMarks);
  if (*type == "Nmt") return std::make_unique<CharacterNormalizer>(Nmt);
  if (*type == "Strip") return StripFromJson(json);
  if (*type == "BertNormalizer") return BertFromJson(json);
  if (*type == "Precompiled") return PrecompiledFromJson(json);
  if (*type == "ByteLevel") return std::make_unique<ByteLevelNormalizer>();
  if (*type == "Prepend") {
    absl::StatusOr<std::string> prefix = json.String("prepend");
    if (!prefix.ok()) return prefix.status();
    return std::make_unique<PrependNormalizer>(*std::move(prefix));
  }
  return json.Unsupported(absl::StrCat("normalizer ", *type));
}

}  // namespace hydrant::engine
