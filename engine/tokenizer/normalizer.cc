#include "engine/tokenizer/normalizer.h"

#include <utility>

#include "engine/tokenizer/byte_level.h"
#include "engine/tokenizer/utf8.h"

namespace hydrant::engine {
namespace {

// In BERT's sense: scripts that are written without spaces, Kana and Hangul left out.
bool IsChinese(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
         (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
         (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

template <typename Function>
std::string MapCharacters(std::string_view text, Function function) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Utf8Sequence next = ReadUtf8(text);
    function(next.character, out);
    text.remove_prefix(next.length);
  }
  return out;
}

}  // namespace

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

std::string CharacterNormalizer::Normalize(std::string text) const {
  return MapCharacters(text, function_);
}

std::string StripNormalizer::Normalize(std::string text) const {
  size_t begin = 0, end = text.size();
  const auto space_at = [&](size_t at) {
    return IsWhiteSpace(ReadUtf8(std::string_view(text).substr(at)).character);
  };
  while (left_ && begin < end && space_at(begin)) begin += Utf8Length(text[begin]);
  while (right_ && end > begin) {
    size_t last = end - 1;
    while ((static_cast<uint8_t>(text[last]) & 0xC0) == 0x80) --last;
    if (!space_at(last)) break;
    end = last;
  }
  return text.substr(begin, end - begin);
}

std::string BertNormalizer::Normalize(std::string text) const {
  if (options_.clean_text) {
    text = MapCharacters(text, [](char32_t c, std::string& out) {
      if (!HasTrait(c, kControl)) AppendUtf8(IsWhiteSpace(c) ? U' ' : c, out);
    });
  }
  if (options_.handle_chinese_chars) {
    text = MapCharacters(text, [](char32_t c, std::string& out) {
      const bool alone = IsChinese(c);
      if (alone) out += ' ';
      AppendUtf8(c, out);
      if (alone) out += ' ';
    });
  }
  if (options_.strip_accents) {
    text = MapCharacters(ToNormalForm(text, NormalForm::kNfd), [](char32_t c, std::string& out) {
      if (!HasTrait(c, kAccent)) AppendUtf8(c, out);
    });
  }
  if (options_.lowercase) text = MapCharacters(text, AppendLowerCase);
  return text;
}

std::string ByteLevelNormalizer::Normalize(std::string text) const {
  std::string out;
  AppendByteSpelling(text, out);
  return out;
}

NormalizerSequence::NormalizerSequence(std::vector<std::unique_ptr<Normalizer>> steps)
    : steps_(std::move(steps)) {}

std::string NormalizerSequence::Normalize(std::string text) const {
  for (const std::unique_ptr<Normalizer>& step : steps_) text = step->Normalize(std::move(text));
  return text;
}

}  // namespace hydrant::engine
