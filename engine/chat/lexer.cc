#include "engine/chat/lexer.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace hydrant::engine::chat {
namespace {

constexpr std::string_view kSpace = " \t\n\r\f\v";

bool IsNameStart(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool IsDigit(char c) { return std::isdigit(static_cast<unsigned char>(c)); }

// Every line end as "\n", and the last one gone.
std::string NormalizeNewlines(std::string_view source) {
  std::string out;
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
      continue;
    }
    out += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(NormalizeNewlines(source)), in_(source_) {}

  absl::StatusOr<std::vector<Token>> Run() {
    while (at_ < in_.size() && status_.ok()) {
      const size_t tag = FindTag();
      Text(tag);
      if (tag == in_.size()) break;
      Tag();
    }
    if (!status_.ok()) return status_;
    tokens_.push_back({Token::kEnd, ""});
    return std::move(tokens_);
  }

 private:
  size_t FindTag() const {
    for (size_t i = at_; i + 1 < in_.size(); ++i) {
      if (in_[i] == '{' && (in_[i + 1] == '{' || in_[i + 1] == '%' || in_[i + 1] == '#')) return i;
    }
    return in_.size();
  }

  // The text up to `end`, less what the tag there takes away.
  void Text(size_t end) {
    std::string_view text = in_.substr(at_, end - at_);
    const std::string_view tag = in_.substr(end, 3);
    if (tag.size() == 3 && tag[2] == '-') {
      text = text.substr(0, text.find_last_not_of(kSpace) + 1);
    } else if (!tag.empty() && tag[1] != '{' && !(tag.size() == 3 && tag[2] == '+')) {
      const size_t newline = text.rfind('\n');
      const size_t line = newline == std::string_view::npos ? 0 : newline + 1;
      if ((line > 0 || at_line_start_) &&
          text.find_first_not_of(kSpace, line) == std::string_view::npos) {
        text = text.substr(0, line);
      }
    }
    if (!text.empty()) tokens_.push_back({Token::kText, std::string(text)});
    at_ = end;
  }

  void Tag() {
    const char kind = in_[at_ + 1];
    at_ += 2;
    if (at_ < in_.size() && (in_[at_] == '-' || in_[at_] == '+')) ++at_;
    if (kind == '#') {
      const size_t end = in_.find("#}", at_);
      if (end == std::string_view::npos) return Fail("a comment that does not end");
      at_ = end;
      return EndTag('#', in_[end - 1]);
    }
    tokens_.push_back({kind == '{' ? Token::kOutputBegin : Token::kBlockBegin, ""});
    const char close = kind == '{' ? '}' : '%';
    while (status_.ok()) {
      at_ = std::min(in_.find_first_not_of(kSpace, at_), in_.size());
      const std::string_view rest = in_.substr(at_);
      const size_t sign = rest.starts_with('-') || rest.starts_with('+') ? 1 : 0;
      if (rest.size() > sign + 1 && rest[sign] == close && rest[sign + 1] == '}') {
        at_ += sign;
        tokens_.push_back({kind == '{' ? Token::kOutputEnd : Token::kBlockEnd, ""});
        return EndTag(close, sign ? rest[0] : ' ');
      }
      InsideTag(rest);
    }
  }

  // At the closing two characters; `sign` stands before them.
  void EndTag(char close, char sign) {
    at_ += 2;
    if (sign == '-') {
      at_ = std::min(in_.find_first_not_of(kSpace, at_), in_.size());
    } else if (sign != '+' && close != '}' && at_ < in_.size() && in_[at_] == '\n') {
      ++at_;
    }
    at_line_start_ = in_[at_ - 1] == '\n';
  }

  void InsideTag(std::string_view rest) {
    if (rest.empty()) return Fail("a tag that does not end");
    if (rest[0] == '\'' || rest[0] == '"') return String(rest[0]);
    size_t length = 1;
    Token::Kind kind = Token::kOperator;
    if (IsNameStart(rest[0])) {
      kind = Token::kName;
      while (length < rest.size() && (IsNameStart(rest[length]) || IsDigit(rest[length]))) ++length;
    } else if (IsDigit(rest[0])) {
      kind = Token::kNumber;
      while (length < rest.size() && IsDigit(rest[length])) ++length;
    } else if (rest.starts_with("==") || rest.starts_with("!=")) {
      length = 2;
    }
    tokens_.push_back({kind, std::string(rest.substr(0, length))});
    at_ += length;
  }

  void String(char quote) {
    std::string value;
    for (++at_; at_ < in_.size() && in_[at_] != quote; ++at_) {
      if (in_[at_] != '\\') {
        value += in_[at_];
        continue;
      }
      if (++at_ == in_.size()) break;
      switch (in_[at_]) {
        case 'n':
          value += '\n';
          break;
        case 't':
          value += '\t';
          break;
        case 'r':
          value += '\r';
          break;
        case '\\':
        case '\'':
        case '"':
          value += in_[at_];
          break;
        default:
          return Fail(absl::StrCat("the escape \\", std::string(1, in_[at_])));
      }
    }
    if (at_ == in_.size()) return Fail("a string that does not end");
    ++at_;
    tokens_.push_back({Token::kString, std::move(value)});
  }

  void Fail(std::string_view what) {
    status_ = absl::UnimplementedError(absl::StrCat(
        "chat template: ", absl::string_view(what.data(), what.size()), " is not understood"));
  }

  const std::string source_;
  const std::string_view in_;
  size_t at_ = 0;
  bool at_line_start_ = true;  // where the text after a tag begins
  std::vector<Token> tokens_;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<std::vector<Token>> Tokenize(std::string_view source) { return Lexer(source).Run(); }

}  // namespace hydrant::engine::chat
