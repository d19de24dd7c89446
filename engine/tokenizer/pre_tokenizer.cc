#include "engine/tokenizer/pre_tokenizer.h"

#include <utility>

#include "engine/tokenizer/byte_level.h"
#include "engine/tokenizer/unicode.h"
#include "engine/tokenizer/utf8.h"

namespace hydrant::engine {
namespace {

constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

}  // namespace

Pieces::Pieces(std::string text, bool at_start)
    : text_(std::move(text)), first_at_start_(at_start) {
  if (!text_.empty()) ranges_.push_back({0, text_.size()});
}

std::string_view Pieces::operator[](size_t i) const {
  return std::string_view(text_).substr(ranges_[i].begin, ranges_[i].end - ranges_[i].begin);
}

void Pieces::Split(const TextPattern& pattern, SplitBehavior behavior, bool invert) {
  std::vector<TextRange> cut;
  for (size_t i = 0; i < ranges_.size(); ++i) {
    const std::string_view piece = (*this)[i];
    const size_t offset = ranges_[i].begin;
    for (const TextRange& part :
         SplitAtMatches(piece.size(), pattern.FindAll(piece), behavior, invert)) {
      cut.push_back({offset + part.begin, offset + part.end});
    }
  }
  KeepStart(cut);
  ranges_ = std::move(cut);
}

void Pieces::KeepStart(const std::vector<TextRange>& cut) {
  const bool keeps_start =
      !cut.empty() && !ranges_.empty() && cut.front().begin == ranges_.front().begin;
  first_at_start_ = first_at_start_ && keeps_start;
}

void Pieces::SplitAtScripts() {
  std::vector<TextRange> cut;
  for (const TextRange& range : ranges_) {
    uint8_t script = 0;
    size_t begin = range.begin;
    for (size_t at = range.begin; at < range.end;) {
      const Utf8Sequence next = ReadUtf8(std::string_view(text_).substr(at));
      const uint8_t here = ScriptOf(next.character);
      if (here != 0 && here != script) {
        // As in Hugging Face, what stands before the first character of a script is lost.
        if (script != 0) cut.push_back({begin, at});
        begin = at;
        script = here;
      }
      at += next.length;
    }
    if (script != 0) cut.push_back({begin, range.end});
  }
  KeepStart(cut);
  ranges_ = std::move(cut);
}

SplitPreTokenizer::SplitPreTokenizer(TextPattern pattern, SplitBehavior behavior, bool invert)
    : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}

void SplitPreTokenizer::Apply(Pieces& pieces) const { pieces.Split(pattern_, behavior_, invert_); }

ByteLevelPreTokenizer::ByteLevelPreTokenizer(bool add_prefix_space)
    : add_prefix_space_(add_prefix_space) {}

absl::StatusOr<std::unique_ptr<PreTokenizer>> ByteLevelPreTokenizer::Create(bool add_prefix_space,
                                                                            bool use_regex) {
  std::unique_ptr<ByteLevelPreTokenizer> made(new ByteLevelPreTokenizer(add_prefix_space));
  if (use_regex) {
    absl::StatusOr<TextPattern> pattern = TextPattern::Regexp(kGpt2Pattern);
    if (!pattern.ok()) return pattern.status();
    made->gpt2_pattern_ = std::make_unique<TextPattern>(*std::move(pattern));
  }
  return made;
}

void ByteLevelPreTokenizer::Apply(Pieces& pieces) const {
  if (add_prefix_space_) {
    pieces.Respell([](size_t, std::string_view piece, std::string& out) {
      if (!piece.starts_with(' ')) out += ' ';
      out += piece;
    });
  }
  if (gpt2_pattern_) pieces.Split(*gpt2_pattern_, SplitBehavior::kIsolated, /*invert=*/false);
  pieces.Respell(
      [](size_t, std::string_view piece, std::string& out) { AppendByteSpelling(piece, out); });
}

MetaspacePreTokenizer::MetaspacePreTokenizer(std::string replacement, Prepend prepend, bool split)
    : replacement_(std::move(replacement)),
      prepend_(prepend),
      split_(split),
      delimiter_(TextPattern::Literal(replacement_)) {}

void MetaspacePreTokenizer::Apply(Pieces& pieces) const {
  pieces.Respell([&](size_t i, std::string_view piece, std::string& out) {
    const bool prepend =
        prepend_ == Prepend::kAlways || (prepend_ == Prepend::kFirst && pieces.IsFirstOfText(i));
    if (prepend && !piece.starts_with(' ') && !piece.starts_with(replacement_)) {
      out += replacement_;
    }
    for (const char byte : piece) {
      if (byte == ' ') {
        out += replacement_;
      } else {
        out += byte;
      }
    }
  });
  if (split_) pieces.Split(delimiter_, SplitBehavior::kMergedWithNext, /*invert=*/false);
}

PreTokenizerSequence::PreTokenizerSequence(std::vector<std::unique_ptr<PreTokenizer>> steps)
    : steps_(std::move(steps)) {}

void PreTokenizerSequence::Apply(Pieces& pieces) const {
  for (const std::unique_ptr<PreTokenizer>& step : steps_) step->Apply(pieces);
}

}  // namespace hydrant::engine
