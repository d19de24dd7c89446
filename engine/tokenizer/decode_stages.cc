#include "engine/tokenizer/decode_stages.h"

#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include "engine/tokenizer/byte_level.h"
#include "engine/tokenizer/utf8.h"

namespace hydrant::engine {
namespace {

// The byte that a token of the form <0xXX> stands for.
std::optional<uint8_t> ByteOfToken(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  uint8_t byte;
  const char* end = token.data() + 5;
  const auto [stopped, error] = std::from_chars(token.data() + 3, end, byte, 16);
  if (error != std::errc() || stopped != end) return std::nullopt;
  return byte;
}

std::string WithReplaced(std::string text, std::string_view what, std::string_view with) {
  if (what.empty()) return text;
  return TextPattern::Literal(std::string(what)).ReplaceAll(text, with);
}

// Hugging Face's clean-up of text that spaces were put into.
std::string CleanedUp(std::string text) {
  constexpr std::pair<std::string_view, std::string_view> kReplaced[] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},     {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},   {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
  };
  for (const auto& [what, with] : kReplaced) text = WithReplaced(std::move(text), what, with);
  return text;
}

}  // namespace

void WholeTokenStage::Push(TokenPart part, std::vector<TokenPart>& out) {
  token_ += part.text;
  if (!part.ends) return;
  PushToken(std::exchange(token_, {}), out);
}

ReplaceStage::ReplaceStage(std::shared_ptr<const TextPattern> pattern, std::string content)
    : pattern_(std::move(pattern)), content_(std::move(content)) {}

void ReplaceStage::PushToken(std::string token, std::vector<TokenPart>& out) {
  out.push_back({pattern_->ReplaceAll(token, content_)});
}

void ByteFallbackStage::PushToken(std::string token, std::vector<TokenPart>& out) {
  const std::optional<uint8_t> byte = ByteOfToken(token);
  if (!byte) {
    EndRun(out);
    out.push_back({std::move(token)});
    return;
  }
  run_ += static_cast<char>(*byte);
  if (broken_) return BreakRun(out);
  const Utf8Sequence last = ReadUtf8(std::string_view(run_).substr(checked_));
  if (last.kind == Utf8Sequence::kCharacter) checked_ = run_.size();
  if (last.kind == Utf8Sequence::kInvalid) BreakRun(out);
}

void ByteFallbackStage::Finish(std::vector<TokenPart>& out) { EndRun(out); }

void ByteFallbackStage::EndRun(std::vector<TokenPart>& out) {
  if (checked_ != run_.size()) BreakRun(out);
  if (!run_.empty()) out.push_back({std::move(run_)});
  run_.clear();
  checked_ = 0;
  broken_ = false;
}

void ByteFallbackStage::BreakRun(std::vector<TokenPart>& out) {
  for (size_t i = 0; i < run_.size(); ++i) out.push_back({std::string(kReplacementCharacter)});
  run_.clear();
  checked_ = 0;
  broken_ = true;
}

void FuseStage::Push(TokenPart part, std::vector<TokenPart>& out) {
  part.begins = !std::exchange(begun_, true);
  part.ends = false;
  out.push_back(std::move(part));
}

void FuseStage::Finish(std::vector<TokenPart>& out) { out.push_back({"", !begun_, true}); }

StripStage::StripStage(std::string content, int64_t start, int64_t stop)
    : content_(std::move(content)), start_(start), stop_(stop) {}

void StripStage::Push(TokenPart part, std::vector<TokenPart>& out) {
  if (part.begins) front_left_ = start_;
  std::string_view text = part.text;
  while (front_left_ > 0 && !text.empty()) {
    if (!text.starts_with(content_)) {
      front_left_ = 0;
      break;
    }
    text.remove_prefix(content_.size());
    --front_left_;
  }
  std::string sure = std::exchange(held_, {});
  sure += text;
  for (int64_t i = 0; i < stop_ && std::string_view(sure).ends_with(content_); ++i) {
    sure.resize(sure.size() - content_.size());
    held_ += content_;
  }
  if (part.ends) held_.clear();
  out.push_back({std::move(sure), part.begins, part.ends});
}

void ByteLevelStage::PushToken(std::string token, std::vector<TokenPart>& out) {
  std::optional<std::string> bytes = BytesOfSpelling(token);
  unfinished_ += bytes ? *bytes : token;
  std::string text;
  std::string_view rest = unfinished_;
  while (!rest.empty()) {
    const Utf8Sequence sequence = ReadUtf8(rest);
    if (sequence.kind == Utf8Sequence::kUnfinished) break;
    text += sequence.kind == Utf8Sequence::kCharacter ? rest.substr(0, sequence.length)
                                                      : kReplacementCharacter;
    rest.remove_prefix(sequence.length);
  }
  unfinished_ = std::string(rest);
  out.push_back({std::move(text), !std::exchange(begun_, true), false});
}

void ByteLevelStage::Finish(std::vector<TokenPart>& out) {
  std::string text(unfinished_.empty() ? std::string_view() : kReplacementCharacter);
  out.push_back({std::move(text), !begun_, true});
  unfinished_.clear();
}

MetaspaceStage::MetaspaceStage(std::string replacement, bool drop_in_first)
    : replacement_(std::move(replacement)), drop_(drop_in_first) {}

void MetaspaceStage::Push(TokenPart part, std::vector<TokenPart>& out) {
  std::string text;
  std::string_view rest = part.text;
  while (!rest.empty()) {
    const std::string_view character = rest.substr(0, Utf8Length(rest[0]));
    if (character != replacement_) {
      text += character;
    } else if (!drop_) {
      text += ' ';
    }
    rest.remove_prefix(character.size());
  }
  if (part.ends) drop_ = false;
  out.push_back({std::move(text), part.begins, part.ends});
}

void WordPieceStage::PushToken(std::string token, std::vector<TokenPart>& out) {
  if (std::exchange(begun_, true)) {
    if (token.starts_with(prefix_)) {
      token.erase(0, prefix_.size());
    } else {
      token.insert(0, " ");
    }
  }
  if (cleanup_) token = CleanedUp(std::move(token));
  out.push_back({std::move(token)});
}

std::string WordEndStage::Replaced(std::string_view token, std::string_view with) const {
  return WithReplaced(std::string(token), suffix_, with);
}

void WordEndStage::PushToken(std::string token, std::vector<TokenPart>& out) {
  if (held_) out.push_back({Replaced(*held_, " ")});
  held_ = std::move(token);
}

void WordEndStage::Finish(std::vector<TokenPart>& out) {
  if (held_) out.push_back({Replaced(*held_, "")});
  held_.reset();
}

void CtcStage::PushToken(std::string token, std::vector<TokenPart>& out) {
  if (previous_ == token) return;
  previous_ = token;
  token = WithReplaced(std::move(token), pad_, "");
  if (cleanup_) token = WithReplaced(CleanedUp(std::move(token)), word_delimiter_, " ");
  if (!token.empty()) out.push_back({std::move(token)});
}

void SpaceBetweenStage::Push(TokenPart part, std::vector<TokenPart>& out) {
  if (part.begins && !std::exchange(first_, false)) part.text.insert(0, " ");
  out.push_back(std::move(part));
}

}  // namespace hydrant::engine
