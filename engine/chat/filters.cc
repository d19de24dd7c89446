// Jinja's filters of one value (filters.py), and the tests (tests.py).

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/chat/characters.h"
#include "engine/chat/interpreter.h"
#include "engine/tokenizer/unicode.h"
#include "engine/tokenizer/utf8.h"

namespace hydrant::engine::chat {
namespace {

bool Flag(const Arguments& arguments, size_t index, std::string_view name, bool absent = false) {
  const Value* value = arguments.Find(index, name);
  return value ? value->Truthy() : absent;
}

int64_t Integer(Interpreter& interpreter, const Arguments& arguments, size_t index,
                std::string_view name, int64_t absent) {
  const Value* value = arguments.Find(index, name);
  if (!value || value->is(Value::kNone)) return absent;
  if (value->is_integer()) return value->integer();
  interpreter.Fail(absl::StrCat("the argument '", std::string(name), "' is no integer"));
  return absent;
}

Value Default(Interpreter&, const Value& value, const Arguments& arguments) {
  const bool replace =
      value.is(Value::kUndefined) || (Flag(arguments, 1, "boolean") && !value.Truthy());
  if (!replace) return value;
  const Value* given = arguments.Find(0, "default_value");
  return given ? *given : Value::String("");
}

Value Length(Interpreter& interpreter, const Value& value, const Arguments&) {
  switch (value.kind()) {
    case Value::kUndefined:
      return Value::Int(0);
    case Value::kString:
      return Value::Int(static_cast<int64_t>(CountCharacters(value.text())));
    case Value::kList:
    case Value::kTuple:
    case Value::kView:
      return Value::Int(static_cast<int64_t>(value.items().size()));
    case Value::kDict:
      return Value::Int(static_cast<int64_t>(value.dict().size()));
    default:
      return interpreter.Fail(absl::StrCat("a ", std::string(value.type_name()), " has no length"));
  }
}

Value Method(Interpreter& interpreter, const Value& value, std::string_view name,
             const Arguments& arguments = {}) {
  if (value.is(Value::kString)) return CallTextMethod(interpreter, value, name, arguments);
  return CallStringMethod(interpreter, value.Str(), name, arguments);
}
Value LowerFilter(Interpreter& i, const Value& v, const Arguments&) {
  return Method(i, v, "lower");
}
Value UpperFilter(Interpreter& i, const Value& v, const Arguments&) {
  return Method(i, v, "upper");
}
Value CapitalizeFilter(Interpreter& i, const Value& v, const Arguments&) {
  return Method(i, v, "capitalize");
}
Value TrimFilter(Interpreter& i, const Value& v, const Arguments& arguments) {
  const Value* set = arguments.Find(0, "chars");
  return Method(i, v, "strip", set ? Arguments{{*set}, {}} : Arguments{});
}
Value CenterFilter(Interpreter& i, const Value& v, const Arguments& arguments) {
  return Method(i, v, "center", {{Value::Int(Integer(i, arguments, 0, "width", 80))}, {}});
}

Value ReplaceFilter(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Value* from = arguments.Find(0, "old");
  const Value* to = arguments.Find(1, "new");
  if (!from || !to) return interpreter.Fail("replace needs what to replace, and by what");
  const Value count = Value::Int(Integer(interpreter, arguments, 2, "count", -1));
  return CallStringMethod(interpreter, value.Str(), "replace",
                          {{Value::String(from->Str()), Value::String(to->Str()), count}, {}});
}

// Words begin after white space, hyphens and opening brackets.
Value TitleFilter(Interpreter& interpreter, const Value& value, const Arguments&) {
  std::string out, rest;
  const std::u32string characters = Characters(value.Str());
  const auto begins = [](char32_t c) {
    return c == '-' || IsSpace(c) || c == '(' || c == '{' || c == '[' || c == '<';
  };
  for (size_t i = 0; i < characters.size();) {
    // As re.split at the delimiters, which are runs: each part is an item of its own.
    size_t end = i;
    while (end < characters.size() && begins(characters[end]) == begins(characters[i])) ++end;
    const std::string part = FromCharacters(characters.substr(i, end - i));
    const size_t first = Utf8Length(part[0]);
    out += Upper(part.substr(0, first)) + Lower(part.substr(first));
    i = end;
  }
  return interpreter.MakeString(std::move(out));
}

Value IndentFilter(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Value* width = arguments.Find(0, "width");
  std::string indent;
  if (width && width->is(Value::kString)) {
    indent = width->text();
  } else {
    const int64_t spaces = Integer(interpreter, arguments, 0, "width", 4);
    if (spaces > 10'000) return interpreter.Fail("an indent of more than 10000 spaces");
    indent = std::string(static_cast<size_t>(std::max<int64_t>(spaces, 0)), ' ');
  }
  if (!value.is(Value::kString)) {
    return interpreter.Fail(value.is(Value::kUndefined) ? value.why() : "indent needs a text");
  }
  const bool first = Flag(arguments, 1, "first"), blank = Flag(arguments, 2, "blank");
  const Value lines = CallStringMethod(interpreter, value.text() + "\n", "splitlines", {});
  std::string out;
  if (!interpreter.ok()) return Value();
  for (size_t i = 0; i < lines.items().size(); ++i) {
    const std::string& line = lines.items()[i].text();
    if (!interpreter.Charge(indent.size() + line.size() + 1)) break;
    if (i > 0) out += '\n';
    if (i == 0 ? first : (blank || !line.empty())) out += indent;
    out += line;
  }
  const Value made = interpreter.MakeString(std::move(out));
  return value.is_markup() ? made.AsMarkup() : made;
}

Value TruncateFilter(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Value* end_given = arguments.Find(2, "end");
  const std::string end = end_given ? end_given->Str() : "...";
  const std::u32string text = Characters(value.Str());
  const int64_t length = Integer(interpreter, arguments, 0, "length", 255);
  const int64_t leeway = Integer(interpreter, arguments, 3, "leeway", 5);
  const int64_t kept = length - static_cast<int64_t>(CountCharacters(end));
  if (kept < 0 || leeway < 0) return interpreter.Fail("truncate: too short for its end");
  const Value size = Length(interpreter, value, {});
  if (!interpreter.ok() || size.integer() <= length + leeway) return value;
  if (!value.is(Value::kString)) return interpreter.Fail("truncate needs a text");
  std::string out = FromCharacters(text.substr(0, static_cast<size_t>(kept)));
  const size_t space = out.rfind(' ');
  if (!Flag(arguments, 1, "killwords") && space != std::string::npos) out.resize(space);
  const Value kept_text = interpreter.MakeString(std::move(out));
  return interpreter.Binary("+", value.is_markup() ? kept_text.AsMarkup() : kept_text,
                            end_given ? *end_given : Value::String(end));
}

Value WordCountFilter(Interpreter&, const Value& value, const Arguments&) {
  int64_t words = 0;
  bool inside = false;
  for (const char32_t c : Characters(value.Str())) {
    const Category category = CategoryOf(c);
    const bool is_word =
        IsLetter(category) || c == '_' || (category >= Category::kNd && category <= Category::kNo);
    words += is_word && !inside;
    inside = is_word;
  }
  return Value::Int(words);
}

// Python's int(text, base); nullopt where that raises.
std::optional<int64_t> ParseInteger(std::string_view text, int64_t base) {
  text = Strip(text, std::nullopt, true, true);
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  const auto has_prefix = [&](char letter) {
    return text.size() > 2 && text[0] == '0' && (text[1] | 0x20) == letter;
  };
  for (const auto& [letter, its_base] : {std::pair('x', 16), {'o', 8}, {'b', 2}}) {
    if (has_prefix(letter) && (base == its_base || base == 0)) {
      base = its_base;
      text.remove_prefix(2);
      if (text.starts_with('_')) text.remove_prefix(1);
    }
  }
  if (base == 0) base = 10;
  if (base < 2 || base > 36 || text.empty() || text.front() == '_' || text.back() == '_' ||
      text.find("__") != std::string_view::npos) {
    return std::nullopt;
  }
  std::string digits = negative ? "-" : "";
  for (const char c : text) {
    if (c == '+' || c == '-') return std::nullopt;
    if (c != '_') digits += c;
  }
  int64_t value = 0;
  const auto [stop, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, static_cast<int>(base));
  if (error != std::errc() || stop != digits.data() + digits.size()) return std::nullopt;
  return value;
}

// Python's float(text).
std::optional<double> ParseFloat(std::string_view text) {
  text = Strip(text, std::nullopt, true, true);
  std::string digits;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool between = text[i] == '_' && i > 0 && i + 1 < text.size() &&
                         std::isdigit(static_cast<unsigned char>(text[i - 1])) &&
                         std::isdigit(static_cast<unsigned char>(text[i + 1]));
    if (!between) digits += text[i];
  }
  // strtod takes hexadecimal and payloads of nan, which Python does not.
  const std::string lower = Lower(digits);
  const std::string_view body =
      std::string_view(lower).substr(lower.starts_with('-') || lower.starts_with('+') ? 1 : 0);
  const bool is_word = body == "inf" || body == "infinity" || body == "nan";
  if (digits.empty() ||
      (!is_word && lower.find_first_not_of("0123456789.e+-") != std::string::npos)) {
    return std::nullopt;
  }
  char* end = nullptr;
  const double value = std::strtod(digits.c_str(), &end);
  if (end != digits.c_str() + digits.size()) return std::nullopt;
  return value;
}

Value IntFilter(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Value* given = arguments.Find(0, "default");
  const Value absent = given ? *given : Value::Int(0);
  if (value.is(Value::kUndefined)) return interpreter.Fail(value.why());
  if (value.is_integer()) return Value::Int(value.integer());
  std::optional<double> number;
  if (value.is(Value::kString)) {
    const auto parsed = ParseInteger(value.text(), Integer(interpreter, arguments, 1, "base", 10));
    if (parsed) return Value::Int(*parsed);
    number = ParseFloat(value.text());
  } else if (value.is(Value::kFloat)) {
    number = value.number();
  }
  if (!number || !(std::abs(*number) < 9.2e18)) return absent;
  return Value::Int(static_cast<int64_t>(*number));
}

Value FloatFilter(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Value* given = arguments.Find(0, "default");
  const Value absent = given ? *given : Value::Float(0);
  if (value.is(Value::kUndefined)) return interpreter.Fail(value.why());
  if (value.is_number()) return Value::Float(value.number());
  const std::optional<double> number =
      value.is(Value::kString) ? ParseFloat(value.text()) : std::nullopt;
  return number ? Value::Float(*number) : absent;
}

Value AbsFilter(Interpreter& interpreter, const Value& value, const Arguments&) {
  if (value.is(Value::kFloat)) return Value::Float(std::abs(value.number()));
  if (!value.is_integer()) {
    return interpreter.Fail(value.is(Value::kUndefined) ? value.why() : "abs needs a number");
  }
  const Value zero = Value::Int(0);
  return value.integer() < 0 ? interpreter.Binary("-", zero, value) : Value::Int(value.integer());
}

Value RoundFilter(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  if (!value.is_number()) {
    return interpreter.Fail(value.is(Value::kUndefined) ? value.why() : "round needs a number");
  }
  const int64_t precision = Integer(interpreter, arguments, 0, "precision", 0);
  const Value* method = arguments.Find(1, "method");
  const std::string how = method ? method->Str() : "common";
  if (std::abs(precision) > 300) return interpreter.Fail("round: the precision is too large");
  const double scale = std::pow(10.0, static_cast<double>(precision));
  if (how == "ceil" || how == "floor") {
    const double scaled = value.number() * scale;
    return Value::Float((how == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
  }
  if (how != "common") return interpreter.Fail("round: the method is common, ceil or floor");
  if (value.is_integer() && precision >= 0) return Value::Int(value.integer());
  if (precision < 0) {
    const double rounded = std::nearbyint(value.number() * scale) / scale;
    return value.is_integer() ? Value::Int(static_cast<int64_t>(rounded)) : Value::Float(rounded);
  }
  char text[700];
  std::snprintf(text, sizeof(text), "%.*f", static_cast<int>(precision), value.number());
  return Value::Float(std::strtod(text, nullptr));
}

Value StringFilter(Interpreter& interpreter, const Value& value, const Arguments&) {
  return value.is(Value::kString) ? value : interpreter.MakeString(value.Str());
}

Value SafeFilter(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  return StringFilter(interpreter, value, arguments).AsMarkup();
}

Value EscapeFilter(Interpreter& interpreter, const Value& value, const Arguments&) {
  return Escape(interpreter, value);
}

Value ForceEscapeFilter(Interpreter& interpreter, const Value& value, const Arguments&) {
  return Escape(interpreter, interpreter.MakeString(value.Str()));
}

// "text % values", of markup too.
Value Formatted(Interpreter& interpreter, const Value& value, const Value& values) {
  if (value.is_markup()) return FormatMarkup(interpreter, value, values);
  return FormatPercent(interpreter, value.Str(), values);
}

Value FormatFilter(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  if (arguments.named.empty()) {
    return Formatted(interpreter, value, Value::Tuple(arguments.positional));
  }
  if (!arguments.positional.empty()) {
    return interpreter.Fail("format takes positional or keyword arguments, not both");
  }
  Dict names;
  for (const auto& [name, held] : arguments.named) names.Set(Value::String(name), held);
  return Formatted(interpreter, value, Value::OfDict(std::move(names)));
}

Value AttrFilter(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Value* name = arguments.Find(0, "name");
  if (!name || !name->is(Value::kString)) return interpreter.Fail("attr needs a name");
  if (value.is(Value::kDict) && !HasMethod(value, name->text())) {
    return Value::Undefined(absl::StrCat("'dict object' has no attribute '", name->text(), "'"));
  }
  return interpreter.GetAttribute(value, name->text());
}

Value ToJsonFilter(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  JsonStyle style;
  style.ensure_ascii = Flag(arguments, 0, "ensure_ascii");
  std::string indent;
  const Value* width = arguments.Find(1, "indent");
  if (width && !width->is(Value::kNone)) {
    if (width->is(Value::kString)) {
      indent = width->text();
    } else {
      const int64_t spaces = Integer(interpreter, arguments, 1, "indent", 0);
      if (spaces > 1000) return interpreter.Fail("tojson: an indent of more than 1000 spaces");
      indent = std::string(static_cast<size_t>(std::max<int64_t>(spaces, 0)), ' ');
    }
    style.indent = &indent;
    style.item_separator = ",";
  }
  const Value* separators = arguments.Find(2, "separators");
  if (separators && !separators->is(Value::kNone)) {
    const std::vector<Value> both = interpreter.Iterate(*separators);
    if (both.size() != 2) return interpreter.Fail("tojson: two separators are needed");
    style.item_separator = both[0].Str();
    style.key_separator = both[1].Str();
  }
  style.sort_keys = Flag(arguments, 3, "sort_keys");
  return ToJson(interpreter, value, style);
}

// Percent-encoding of what urllib.parse.quote encodes.
Value UrlEncodeFilter(Interpreter& interpreter, const Value& value, const Arguments&) {
  if (value.is_sequence() || value.is(Value::kDict)) {
    return interpreter.Fail("urlencode of several values is not supported",
                            absl::StatusCode::kUnimplemented);
  }
  std::string out;
  for (const char c : value.Str()) {
    if (std::isalnum(static_cast<unsigned char>(c)) ||
        std::string_view("_.-~/").find(c) != std::string_view::npos) {
      out += c;
    } else {
      char code[4];
      std::snprintf(code, sizeof(code), "%%%02X", static_cast<unsigned char>(c));
      out += code;
    }
  }
  return interpreter.MakeString(std::move(out));
}

}  // namespace

FilterFunction FindFilter(std::string_view name) {
  static constexpr std::pair<std::string_view, FilterFunction> kFilters[] = {
      {"abs", AbsFilter},
      {"attr", AttrFilter},
      {"capitalize", CapitalizeFilter},
      {"center", CenterFilter},
      {"count", Length},
      {"d", Default},
      {"default", Default},
      {"e", EscapeFilter},
      {"escape", EscapeFilter},
      {"float", FloatFilter},
      {"forceescape", ForceEscapeFilter},
      {"format", FormatFilter},
      {"indent", IndentFilter},
      {"int", IntFilter},
      {"length", Length},
      {"lower", LowerFilter},
      {"replace", ReplaceFilter},
      {"round", RoundFilter},
      {"safe", SafeFilter},
      {"string", StringFilter},
      {"title", TitleFilter},
      {"tojson", ToJsonFilter},
      {"trim", TrimFilter},
      {"truncate", TruncateFilter},
      {"upper", UpperFilter},
      {"urlencode", UrlEncodeFilter},
      {"wordcount", WordCountFilter},
  };
  for (const auto& [known, filter] : kFilters) {
    if (known == name) return filter;
  }
  return nullptr;
}

}  // namespace hydrant::engine::chat
