// Python's two ways to format a text: "%d items" % n, and "{} items".format(n).

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/chat/characters.h"
#include "engine/chat/interpreter.h"
#include "engine/tokenizer/utf8.h"

namespace hydrant::engine::chat {
namespace {

constexpr int kMaxWidth = 10'000;
constexpr int kMaxPrecision = 300;

// "[[fill]align][sign][#][0][width][,][.precision][type]".
struct Spec {
  std::string fill = " ";
  char align = '\0';  // < > ^ =
  char sign = '-';
  bool alternate = false;
  int width = 0;
  char grouping = '\0';
  int precision = -1;
  char type = '\0';
};

void Pad(const Spec& spec, std::string body, char default_align, std::string& out) {
  const int missing = spec.width - static_cast<int>(CountCharacters(body));
  const char align = spec.align ? spec.align : default_align;
  int left = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  size_t sign = 0;
  if (align == '=') {
    while (sign < body.size() && sign < 1 && (body[0] == '-' || body[0] == '+' || body[0] == ' ')) {
      ++sign;
    }
    if (body.size() > sign + 1 && body[sign] == '0' &&
        std::isalpha(static_cast<unsigned char>(body[sign + 1]))) {
      sign += 2;
    }
  }
  out += body.substr(0, sign);
  for (int i = 0; i < left; ++i) out += spec.fill;
  out += body.substr(sign);
  for (int i = std::max(left, 0); i < missing; ++i) out += spec.fill;
}

void Group(char separator, size_t every, std::string& digits) {
  if (!separator) return;
  size_t end = digits.find_first_not_of("0123456789abcdefABCDEF");
  if (end == std::string::npos) end = digits.size();
  for (size_t at = end; at > every;) {
    at -= every;
    digits.insert(at, 1, separator);
  }
}

std::string WithSign(bool negative, char sign, std::string digits) {
  if (negative) return "-" + digits;
  return sign == '-' ? digits : sign + digits;
}

std::string FormatInteger(int64_t value, const Spec& spec) {
  const int base = spec.type == 'x' || spec.type == 'X' ? 16
                   : spec.type == 'o'                   ? 8
                   : spec.type == 'b'                   ? 2
                                                        : 10;
  const uint64_t magnitude =
      value < 0 ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  char buffer[80];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), magnitude, base);
  std::string digits(buffer, end.ptr);
  if (spec.type == 'X') digits = Upper(digits);
  Group(spec.grouping, base == 10 ? 3 : 4, digits);
  if (spec.alternate && base != 10) digits = absl::StrCat("0", std::string(1, spec.type), digits);
  return WithSign(value < 0, spec.sign, digits);
}

std::string FormatFloat(double value, const Spec& spec) {
  const bool negative = std::signbit(value) && !std::isnan(value);
  const double magnitude = std::abs(value);
  const char type = spec.type ? spec.type : 'g';
  std::string digits;
  if (!std::isfinite(value)) {
    digits = std::isnan(value) ? "nan" : "inf";
    if (type == 'F' || type == 'E' || type == 'G') digits = Upper(digits);
  } else if (!spec.type && spec.precision < 0) {
    digits = FloatRepr(magnitude);
  } else {
    const bool percent = type == '%';
    const std::string format =
        absl::StrCat("%", spec.alternate ? "#" : "", ".*", std::string(1, percent ? 'f' : type));
    char buffer[800];
    std::snprintf(buffer, sizeof(buffer), format.c_str(), spec.precision < 0 ? 6 : spec.precision,
                  percent ? magnitude * 100 : magnitude);
    digits = buffer;
    if (percent) digits += '%';
  }
  Group(spec.grouping, 3, digits);
  return WithSign(negative, spec.sign, digits);
}

bool IsFloatType(char type) {
  return std::string_view("eEfFgG%").find(type) != std::string_view::npos;
}
bool IsIntegerType(char type) {
  return std::string_view("dxXob").find(type) != std::string_view::npos;
}

// Digits at `at`; `limit` bounds what they say. False: too much.
bool ReadNumber(std::string_view text, size_t& at, int limit, int& number) {
  const size_t begin = at;
  while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
  if (at == begin) return true;
  const auto [end, error] = std::from_chars(text.data() + begin, text.data() + at, number);
  return error == std::errc() && number <= limit;
}

class PercentFormatter {
 public:
  PercentFormatter(Interpreter& interpreter, std::string_view format, const Value& values)
      : interpreter_(interpreter), format_(format), values_(values) {}

  Value Run() {
    while (at_ < format_.size() && interpreter_.ok()) {
      const size_t percent = std::min(format_.find('%', at_), format_.size());
      out_ += format_.substr(at_, percent - at_);
      at_ = percent;
      if (at_ < format_.size()) Conversion();
    }
    const bool used = !values_.is(Value::kTuple)
                          ? next_ > 0 || values_.is(Value::kDict) || values_.is(Value::kList) ||
                                values_.is(Value::kUndefined)
                          : next_ >= values_.items().size();
    if (!used) return interpreter_.Fail("not all arguments were used in formatting");
    return interpreter_.MakeString(std::move(out_));
  }

 private:
  Value Next() {
    if (values_.is(Value::kTuple)) {
      if (next_ < values_.items().size()) return values_.items()[next_++];
    } else if (next_++ == 0) {
      return values_;
    }
    return interpreter_.Fail("not enough arguments for the format");
  }

  void Conversion() {
    ++at_;
    Value value;
    bool named = false;
    if (at_ < format_.size() && format_[at_] == '(') {
      const size_t close = format_.find(')', at_);
      if (close == std::string_view::npos || !values_.is(Value::kDict)) {
        interpreter_.Fail("a format with a name needs a dict");
        return;
      }
      const Value* found = values_.dict().Find(format_.substr(at_ + 1, close - at_ - 1));
      if (!found) {
        interpreter_.Fail("the format names what the dict does not have");
        return;
      }
      value = *found;
      named = true;
      at_ = close + 1;
    }
    Spec spec;
    bool zero = false;
    for (; at_ < format_.size(); ++at_) {
      const char flag = format_[at_];
      if (flag == '-') {
        spec.align = '<';
      } else if (flag == '+' || (flag == ' ' && spec.sign != '+')) {
        spec.sign = flag;
      } else if (flag == '#') {
        spec.alternate = true;
      } else if (flag == '0') {
        zero = true;
      } else if (flag != ' ') {
        break;
      }
    }
    bool fits = ReadNumber(format_, at_, kMaxWidth, spec.width);
    if (at_ < format_.size() && format_[at_] == '.') {
      ++at_;
      spec.precision = 0;
      fits = ReadNumber(format_, at_, kMaxPrecision, spec.precision) && fits;
    }
    if (!fits || at_ >= format_.size()) {
      interpreter_.Fail("a format that is incomplete or too wide");
      return;
    }
    const char type = format_[at_++];
    if (type == '%') {
      out_ += '%';
      return;
    }
    if (!named) value = Next();
    if (interpreter_.ok()) Convert(type, value, spec, zero);
  }

  void Convert(char type, const Value& value, Spec& spec, bool zero) {
    std::string body;
    if (type == 's' || type == 'r' || type == 'a') {
      body = type == 's' ? value.Str() : value.Repr();
      if (spec.precision >= 0) body.resize(OffsetOfCharacter(body, spec.precision));
    } else if (type == 'c') {
      if (value.is_integer() && value.integer() >= 0 && value.integer() < 0x110000) {
        AppendUtf8(static_cast<char32_t>(value.integer()), body);
      } else {
        body = value.Str();
      }
    } else if (!value.is_number()) {
      interpreter_.Fail(value.is(Value::kUndefined) ? value.why()
                                                    : std::string_view("a format needs a number"));
      return;
    } else {
      spec.type = type == 'i' || type == 'u' ? 'd' : type;
      const double number = value.number();
      if (IsIntegerType(spec.type) && spec.type != 'b') {
        if (!value.is_integer() && !(spec.type == 'd' && std::abs(number) < 9e18)) {
          interpreter_.Fail("a format needs an integer");
          return;
        }
        body = FormatInteger(value.is_integer() ? value.integer() : static_cast<int64_t>(number),
                             spec);
      } else if (IsFloatType(spec.type)) {
        body = FormatFloat(number, spec);
      } else {
        interpreter_.Fail(absl::StrCat("unknown format '%", std::string(1, type), "'"));
        return;
      }
      if (zero && spec.align == '\0') {
        spec.align = '=';
        spec.fill = "0";
      }
    }
    interpreter_.Charge(body.size() + spec.width);
    Pad(spec, std::move(body), '>', out_);
  }

  Interpreter& interpreter_;
  const std::string_view format_;
  const Value& values_;
  size_t at_ = 0;
  size_t next_ = 0;
  std::string out_;
};

class BraceFormatter {
 public:
  BraceFormatter(Interpreter& interpreter, const Arguments& arguments)
      : interpreter_(interpreter), arguments_(arguments) {}

  std::string Run(std::string_view format, int depth) {
    std::string out;
    for (size_t at = 0; at < format.size() && interpreter_.ok();) {
      const char c = format[at];
      if ((c == '{' || c == '}') && at + 1 < format.size() && format[at + 1] == c) {
        out += c;
        at += 2;
      } else if (c == '}') {
        interpreter_.Fail("a single '}' in a format");
      } else if (c == '{') {
        size_t end = at + 1;
        for (int open = 1; end < format.size(); ++end) {
          open += format[end] == '{' ? 1 : format[end] == '}' ? -1 : 0;
          if (open == 0) break;
        }
        if (end >= format.size() || depth > 1) {
          interpreter_.Fail("a '{' in a format that does not end, or nests too deeply");
          break;
        }
        Field(format.substr(at + 1, end - at - 1), depth, out);
        at = end + 1;
      } else {
        out += c;
        ++at;
      }
    }
    return out;
  }

 private:
  void Field(std::string_view field, int depth, std::string& out) {
    const size_t name_end = std::min(field.find_first_of("!:"), field.size());
    Value value = Lookup(field.substr(0, name_end));
    std::string_view rest = field.substr(name_end);
    if (rest.starts_with('!') && rest.size() > 1) {
      value = Value::String(rest[1] == 's' ? value.Str() : value.Repr());
      rest.remove_prefix(2);
    }
    if (rest.starts_with(':')) rest.remove_prefix(1);
    if (!interpreter_.ok()) return;
    Format(value, Run(rest, depth + 1), out);
  }

  Value Lookup(std::string_view name) {
    const size_t first_end = std::min(name.find_first_of(".["), name.size());
    const std::string_view first = name.substr(0, first_end);
    Value value;
    int index = 0;
    size_t digits = 0;
    if (first.empty()) {
      value = Positional(next_++);
    } else if (ReadNumber(first, digits, kMaxWidth, index) && digits == first.size()) {
      value = Positional(static_cast<size_t>(index));
    } else if (const Value* named = arguments_.Find(SIZE_MAX, first)) {
      value = *named;
    } else {
      return interpreter_.Fail("a format names an argument that is not there");
    }
    name.remove_prefix(first_end);
    while (!name.empty() && interpreter_.ok()) {
      if (name[0] == '.') {
        const size_t end = std::min(name.find_first_of(".[", 1), name.size());
        value = interpreter_.GetAttribute(value, name.substr(1, end - 1));
        name.remove_prefix(end);
      } else {
        const size_t end = name.find(']');
        if (name[0] != '[' || end == std::string_view::npos) {
          return interpreter_.Fail("a malformed name in a format");
        }
        const std::string key(name.substr(1, end - 1));
        size_t at = 0;
        const bool is_index = ReadNumber(key, at, INT32_MAX, index) && at == key.size() && at > 0;
        value = interpreter_.GetItem(value, is_index ? Value::Int(index) : Value::String(key));
        name.remove_prefix(end + 1);
      }
    }
    return value;
  }

  Value Positional(size_t index) {
    if (index < arguments_.positional.size()) return arguments_.positional[index];
    return interpreter_.Fail("a format has more fields than arguments");
  }

  void Format(const Value& value, std::string_view text, std::string& out) {
    Spec spec;
    size_t at = 0;
    const auto is_align = [&](size_t i) {
      return i < text.size() && std::string_view("<>^=").find(text[i]) != std::string_view::npos;
    };
    const size_t first = text.empty() ? 0 : Utf8Length(text[0]);
    if (first > 0 && is_align(first)) {
      spec.fill = std::string(text.substr(0, first));
      spec.align = text[first];
      at = first + 1;
    } else if (is_align(0)) {
      spec.align = text[0];
      at = 1;
    }
    const auto accept = [&](char c) { return at < text.size() && text[at] == c && ++at; };
    for (const char sign : {'+', '-', ' '}) {
      if (accept(sign)) spec.sign = sign;
    }
    spec.alternate = accept('#');
    if (accept('0') && !spec.align) {
      spec.align = '=';
      spec.fill = "0";
    }
    bool fits = ReadNumber(text, at, kMaxWidth, spec.width);
    for (const char separator : {',', '_'}) {
      if (accept(separator)) spec.grouping = separator;
    }
    if (accept('.')) {
      spec.precision = 0;
      fits = ReadNumber(text, at, kMaxPrecision, spec.precision) && fits;
    }
    if (at < text.size()) spec.type = text[at++];
    if (!fits || at != text.size()) {
      interpreter_.Fail("a malformed format, or one that is too wide");
      return;
    }
    Write(value, spec, out);
  }

  void Write(const Value& value, Spec& spec, std::string& out) {
    interpreter_.Charge(spec.width);
    const bool plain = spec.type == '\0' && spec.precision < 0;
    if (value.is(Value::kString) || (!value.is_number()) ||
        (value.is(Value::kBool) && plain && spec.width == 0)) {
      std::string body = value.Str();
      const bool default_spec = plain && spec.width == 0 && !spec.align;
      if ((spec.type && spec.type != 's') ||
          (!value.is(Value::kString) && !value.is(Value::kBool) && !default_spec)) {
        interpreter_.Fail("this format does not suit the value");
        return;
      }
      if (spec.align == '=') spec.align = '<';
      if (spec.precision >= 0) body.resize(OffsetOfCharacter(body, spec.precision));
      return Pad(spec, std::move(body), '<', out);
    }
    if (spec.type == 'n') spec.type = '\0';
    if (value.is(Value::kFloat) || IsFloatType(spec.type)) {
      if (spec.type && !IsFloatType(spec.type)) {
        interpreter_.Fail("this format needs an integer");
        return;
      }
      return Pad(spec, FormatFloat(value.number(), spec), '>', out);
    }
    if (spec.type == 'c') {
      std::string body;
      AppendUtf8(static_cast<char32_t>(std::clamp<int64_t>(value.integer(), 0, 0xD7FF)), body);
      return Pad(spec, body, '<', out);
    }
    if ((spec.type && !IsIntegerType(spec.type)) || spec.precision >= 0) {
      interpreter_.Fail("this format does not suit the value");
      return;
    }
    Pad(spec, FormatInteger(value.integer(), spec), '>', out);
  }

  Interpreter& interpreter_;
  const Arguments& arguments_;
  size_t next_ = 0;
};

}  // namespace

Value FormatPercent(Interpreter& interpreter, std::string_view format, const Value& values) {
  return PercentFormatter(interpreter, format, values).Run();
}

Value FormatBraces(Interpreter& interpreter, std::string_view format, const Arguments& arguments) {
  return interpreter.MakeString(BraceFormatter(interpreter, arguments).Run(format, 0));
}

}  // namespace hydrant::engine::chat
