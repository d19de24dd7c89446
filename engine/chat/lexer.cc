#include "engine/chat/lexer.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/chat/characters.h"
#include "engine/tokenizer/unicode.h"
#include "engine/tokenizer/utf8.h"

namespace hydrant::engine::chat {
namespace {

constexpr std::string_view kSpace = " \t\n\r\f\v\x1c\x1d\x1e\x1f";

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsNameStart(char32_t c) {
  return c == '_' || (c < 0x80 ? (c | 0x20) >= 'a' && (c | 0x20) <= 'z' : IsLetter(CategoryOf(c)));
}

// Every line end as "\n", and the last one gone.
std::string NormalizeNewlines(std::string_view source, bool drop_last) {
  std::string out;
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
      continue;
    }
    out += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (drop_last && !out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source)
      : source_(NormalizeNewlines(source, /*drop_last=*/true)), in_(source_) {}

  absl::StatusOr<std::vector<Token>> Run() {
    while (at_ < in_.size() && status_.ok()) {
      const size_t tag = FindTag();
      Text(tag);
      if (tag == in_.size()) break;
      Tag();
    }
    if (!status_.ok()) return status_;
    Push(Token::kEnd, "");
    return std::move(tokens_);
  }

 private:
  // Positions are asked for in rising order, so that all of them cost one pass.
  Position PositionOf(size_t at) {
    for (; counted_ < at; ++counted_) {
      if (in_[counted_] == '\n') {
        ++position_.line;
        position_.column = 1;
      } else if ((static_cast<unsigned char>(in_[counted_]) & 0xC0) != 0x80) {
        ++position_.column;
      }
    }
    return position_;
  }
  Token& Push(Token::Kind kind, std::string text) {
    tokens_.push_back({kind, std::move(text), PositionOf(at_)});
    return tokens_.back();
  }
  void Fail(std::string_view what) {
    if (status_.ok()) {
      status_ =
          ErrorAt(absl::StatusCode::kInvalidArgument, PositionOf(std::min(at_, in_.size())), what);
    }
  }

  size_t FindTag() const {
    for (size_t i = at_; i + 1 < in_.size(); ++i) {
      if (in_[i] == '{' && (in_[i + 1] == '{' || in_[i + 1] == '%' || in_[i + 1] == '#')) return i;
    }
    return in_.size();
  }

  // `text` before a tag that begins with two characters and then `sign`, less what that takes away.
  std::string_view TextBeforeTag(std::string_view text, char kind, char sign) const {
    if (sign == '-') return Strip(text, std::nullopt, /*left=*/false, /*right=*/true);
    if (kind == '{' || sign == '+') return text;
    const size_t newline = text.rfind('\n');
    const size_t line = newline == std::string_view::npos ? 0 : newline + 1;
    if (line == 0 && !at_line_start_) return text;
    const bool blank =
        Strip(text.substr(line), std::nullopt, /*left=*/true, /*right=*/false).empty();
    return blank ? text.substr(0, line) : text;
  }

  // The text up to the tag at `end`, or up to the end.
  void Text(size_t end) {
    std::string_view text = in_.substr(at_, end - at_);
    if (end < in_.size()) {
      text = TextBeforeTag(text, in_[end + 1], end + 2 < in_.size() ? in_[end + 2] : ' ');
    }
    if (!text.empty()) Push(Token::kText, std::string(text));
    at_ = end;
  }

  void Tag() {
    const char kind = in_[at_ + 1];
    if (kind == '%' && Raw()) return;
    const size_t begin = at_;
    at_ += 2;
    if (at_ < in_.size() && (in_[at_] == '-' || in_[at_] == '+')) ++at_;
    if (kind == '#') {
      const size_t end = in_.find("#}", at_);
      if (end == std::string_view::npos) return Fail("a comment that does not end");
      const char sign = end > at_ ? in_[end - 1] : ' ';
      at_ = end;
      return EndTag('#', sign);
    }
    const size_t inside = std::exchange(at_, begin);
    Push(kind == '{' ? Token::kOutputBegin : Token::kBlockBegin, "");
    at_ = inside;
    const char close = kind == '{' ? '}' : '%';
    open_.clear();
    while (status_.ok()) {
      SkipSpace();
      const std::string_view rest = in_.substr(at_);
      // A print statement has no "+}}".
      const size_t sign = rest.starts_with('-') || (kind == '%' && rest.starts_with('+')) ? 1 : 0;
      if (open_.empty() && rest.size() > sign + 1 && rest[sign] == close && rest[sign + 1] == '}') {
        Push(kind == '{' ? Token::kOutputEnd : Token::kBlockEnd, "");
        at_ += sign;
        return EndTag(close, sign ? rest[0] : ' ');
      }
      InsideTag(rest);
    }
  }

  void SkipSpace() {
    const std::string_view rest = in_.substr(at_);
    at_ += rest.size() - Strip(rest, std::nullopt, /*left=*/true, /*right=*/false).size();
  }

  // At the closing two characters; `sign` stands before them.
  void EndTag(char close, char sign) {
    at_ += 2;
    if (sign == '-') {
      SkipSpace();
    } else if (sign != '+' && close != '}' && at_ < in_.size() && in_[at_] == '\n') {
      ++at_;
    }
    at_line_start_ = in_[at_ - 1] == '\n';
  }

  // Whether `word` stands at `at`, alone in its tag: "- word %}". Moves `at` to the closing sign.
  bool AloneInTag(std::string_view word, size_t& at, char& sign) const {
    size_t i = at;
    const auto skip = [&] { i = std::min(in_.find_first_not_of(kSpace, i), in_.size()); };
    skip();
    if (!in_.substr(i).starts_with(word)) return false;
    i += word.size();
    skip();
    sign = ' ';
    if (i < in_.size() && (in_[i] == '-' || in_[i] == '+')) sign = in_[i++];
    if (!in_.substr(i).starts_with("%}")) return false;
    at = i;
    return true;
  }

  // "{% raw %}…{% endraw %}" at at_: its inside is text.
  bool Raw() {
    size_t inside = at_ + 2;
    char sign;
    if (inside < in_.size() && (in_[inside] == '-' || in_[inside] == '+')) ++inside;
    if (!AloneInTag("raw", inside, sign) || sign == '+') return false;
    inside += 2;  // this tag does not take the newline after it
    if (sign == '-') inside = std::min(in_.find_first_not_of(kSpace, inside), in_.size());
    at_line_start_ = in_[inside - 1] == '\n';
    for (size_t end = in_.find("{%", inside); end != std::string_view::npos;
         end = in_.find("{%", end + 1)) {
      size_t close = end + 2;
      const char before = close < in_.size() ? in_[close] : ' ';
      if (before == '-' || before == '+') ++close;
      if (!AloneInTag("endraw", close, sign)) continue;
      at_ = inside;
      const std::string_view text = TextBeforeTag(in_.substr(inside, end - inside), '%', before);
      if (!text.empty()) Push(Token::kText, std::string(text));
      at_ = close;
      EndTag('%', sign);
      return true;
    }
    Fail("a raw block that does not end");
    return true;
  }

  void InsideTag(std::string_view rest) {
    if (rest.empty()) return Fail("a tag that does not end");
    if (rest[0] == '\'' || rest[0] == '"') return String(rest[0]);
    if (IsDigit(rest[0])) return Number(rest);
    const Utf8Sequence first = ReadUtf8(rest);
    if (IsNameStart(first.character)) {
      size_t length = first.length;
      while (length < rest.size()) {
        const Utf8Sequence next = ReadUtf8(rest.substr(length));
        const bool continues =
            IsNameStart(next.character) ||
            (next.character < 0x80 ? IsDigit(rest[length])
                                   : CategoryOf(next.character) <= Category::kNd);
        if (!continues) break;
        length += next.length;
      }
      Push(Token::kName, std::string(rest.substr(0, length)));
      at_ += length;
      return;
    }
    Operator(rest);
  }

  void Operator(std::string_view rest) {
    for (const std::string_view two : {"//", "**", "==", "!=", ">=", "<="}) {
      if (!rest.starts_with(two)) continue;
      Push(Token::kOperator, std::string(two));
      at_ += 2;
      return;
    }
    constexpr std::string_view kOne = "+-/*%~[](){}><=.:|,;";
    const char c = rest[0];
    if (kOne.find(c) == std::string_view::npos) {
      const size_t length = ReadUtf8(rest).length;
      return Fail(absl::StrCat("unexpected character '", std::string(rest.substr(0, length)), "'"));
    }
    if (c == '(' || c == '[' || c == '{') open_ += c == '(' ? ')' : c == '[' ? ']' : '}';
    if (c == ')' || c == ']' || c == '}') {
      if (open_.empty() || open_.back() != c) {
        return Fail(absl::StrCat("unexpected '", std::string(1, c), "'"));
      }
      open_.pop_back();
    }
    Push(Token::kOperator, std::string(1, c));
    ++at_;
  }

  // Digits of `base` from `at` on, with single underscores between them.
  static size_t DigitsEnd(std::string_view in, size_t at, int base) {
    const auto is_digit = [&](size_t i) {
      if (i >= in.size()) return false;
      const char c = in[i];
      const int digit = IsDigit(c) ? c - '0' : (c | 0x20) >= 'a' ? (c | 0x20) - 'a' + 10 : 99;
      return digit < base;
    };
    while (is_digit(at) || (at < in.size() && in[at] == '_' && is_digit(at + 1))) ++at;
    return at;
  }

  void Number(std::string_view rest) {
    int base = 10;
    if (rest[0] == '0' && rest.size() > 1) {
      const char mark = rest[1] | 0x20;
      if (mark == 'x') base = 16;
      if (mark == 'o') base = 8;
      if (mark == 'b') base = 2;
    }
    if (base != 10 && DigitsEnd(rest, 2, base) > 2)
      return Integer(rest, 2, DigitsEnd(rest, 2, base), base);
    size_t end = DigitsEnd(rest, 0, 10);
    bool is_float = false;
    const bool after_dot = at_ > 0 && in_[at_ - 1] == '.';
    if (!after_dot) {
      if (end + 1 < rest.size() && rest[end] == '.' && IsDigit(rest[end + 1])) {
        end = DigitsEnd(rest, end + 1, 10);
        is_float = true;
      }
      if (end < rest.size() && (rest[end] | 0x20) == 'e') {
        size_t digits = end + 1;
        if (digits < rest.size() && (rest[digits] == '+' || rest[digits] == '-')) ++digits;
        if (digits < rest.size() && IsDigit(rest[digits])) {
          end = DigitsEnd(rest, digits, 10);
          is_float = true;
        }
      }
    }
    if (!is_float) {
      // "012" is "0" and then "12".
      if (rest[0] == '0') {
        end = 1;
        while (end < rest.size() &&
               (rest[end] == '0' ||
                (rest[end] == '_' && end + 1 < rest.size() && rest[end + 1] == '0')))
          ++end;
      }
      return Integer(rest, 0, end, 10);
    }
    std::string digits(rest.substr(0, end));
    std::erase(digits, '_');
    Push(Token::kFloat, digits).number = std::strtod(digits.c_str(), nullptr);
    at_ += end;
  }

  void Integer(std::string_view rest, size_t begin, size_t end, int base) {
    std::string digits(rest.substr(begin, end - begin));
    std::erase(digits, '_');
    int64_t value = 0;
    const auto [stop, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    if (error != std::errc()) return Fail("an integer of more than 64 bits");
    Push(Token::kInteger, std::string(rest.substr(0, end))).integer = value;
    at_ += end;
  }

  void String(char quote) {
    size_t end = at_ + 1;
    while (end < in_.size() && in_[end] != quote) end += in_[end] == '\\' ? 2 : 1;
    if (end >= in_.size()) return Fail("a string that does not end");
    std::optional<std::string> value = Unescape(in_.substr(at_ + 1, end - at_ - 1));
    if (!value) return Fail("a malformed escape in a string");
    Push(Token::kString, *std::move(value));
    at_ = end + 1;
  }

  // Python's escapes; nullopt where one is cut short or stands for no character.
  static std::optional<std::string> Unescape(std::string_view text) {
    std::string out;
    for (size_t i = 0; i < text.size();) {
      if (text[i] != '\\') {
        out += text[i++];
        continue;
      }
      const char letter = text[i + 1];
      i += 2;
      constexpr std::string_view kLetters = "ntr\\'\"abfv", kValues = "\n\t\r\\'\"\a\b\f\v";
      const size_t simple = kLetters.find(letter);
      const size_t digits = letter == 'x' ? 2 : letter == 'u' ? 4 : letter == 'U' ? 8 : 0;
      if (simple != std::string_view::npos) {
        out += kValues[simple];
      } else if (letter == '\n') {
        continue;
      } else if (digits > 0 || (letter >= '0' && letter <= '7')) {
        const size_t begin = digits > 0 ? i : i - 1;
        size_t end = digits > 0 ? begin + digits : begin;
        while (digits == 0 && end < std::min(begin + 3, text.size()) && text[end] >= '0' &&
               text[end] <= '7') {
          ++end;
        }
        uint32_t value = 0;
        if (end > text.size()) return std::nullopt;
        const auto [stop, error] =
            std::from_chars(text.data() + begin, text.data() + end, value, digits > 0 ? 16 : 8);
        if (error != std::errc() || stop != text.data() + end || value > 0x10FFFF ||
            (value >= 0xD800 && value < 0xE000)) {
          return std::nullopt;
        }
        AppendUtf8(value, out);
        i = end;
      } else if (letter == 'N') {
        return std::nullopt;  // a character by its name
      } else {
        out += '\\';
        --i;
        if (static_cast<unsigned char>(letter) < 0x80) out += text[i++];
      }
    }
    return out;
  }

  const std::string source_;
  const std::string_view in_;
  size_t at_ = 0;
  size_t counted_ = 0;  // where position_ is
  Position position_;
  bool at_line_start_ = true;  // where the text after a tag begins
  std::string open_;           // the brackets that must still close in this tag
  std::vector<Token> tokens_;
  absl::Status status_;
};

}  // namespace

absl::Status ErrorAt(absl::StatusCode code, Position position, std::string_view what) {
  return absl::Status(
      code, absl::StrCat("chat template, line ", position.line, ", column ", position.column, ": ",
                         absl::string_view(what.data(), what.size())));
}

absl::StatusOr<std::vector<Token>> Tokenize(std::string_view source) { return Lexer(source).Run(); }

}  // namespace hydrant::engine::chat
