// Python's methods of str.

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/chat/characters.h"
#include "engine/chat/interpreter.h"
#include "engine/tokenizer/unicode.h"
#include "engine/tokenizer/utf8.h"

namespace hydrant::engine::chat {
namespace {

// One call: its arguments are read with their types checked.
class StringCall {
 public:
  StringCall(Interpreter& interpreter, const std::string& self, std::string_view name,
             const Arguments& arguments)
      : interpreter_(interpreter), self_(self), name_(name), arguments_(arguments) {}

  Value Run();

 private:
  using View = std::string_view;

  const Value* Argument(size_t index, View name = "") const {
    const Value* value = arguments_.Find(index, name);
    return value && !value->is(Value::kNone) ? value : nullptr;
  }
  Value Wrong(View what) const {
    return interpreter_.Fail(absl::StrCat(std::string(name_), "(): ", std::string(what)));
  }
  // The text at `index`; fails where there is none.
  View Text(size_t index, View name = "") const {
    const Value* value = Argument(index, name);
    if (value && value->is(Value::kString)) return value->text();
    Wrong(absl::StrCat("argument ", index + 1, " is no text"));
    return {};
  }
  int64_t Integer(size_t index, View name, int64_t absent) const {
    const Value* value = Argument(index, name);
    if (!value) return absent;
    if (value->is_integer()) return value->integer();
    Wrong(absl::StrCat("argument ", index + 1, " is no integer"));
    return absent;
  }
  Value Make(View text) const { return interpreter_.MakeString(std::string(text)); }
  Value List(const std::vector<View>& parts) const {
    std::vector<Value> items;
    for (const View part : parts) items.push_back(Make(part));
    return interpreter_.MakeList(std::move(items));
  }

  Value Split(bool from_right) const;
  std::vector<View> SplitAtSpace(int64_t limit, bool from_right) const;
  Value SplitLines() const;
  Value Partition(bool last) const;
  Value Replace() const;
  Value Join() const;
  Value Find(bool last, bool must) const;
  Value Affix(bool at_end) const;
  Value Count() const;
  Value Justify() const;
  Value ZeroFill() const;
  Value Title() const;
  Value SwapCase() const;
  Value ExpandTabs() const;
  std::optional<bool> Is() const;
  bool IsCased() const;
  // The part of the text that the arguments `first` and the next one choose, and where it begins.
  std::pair<View, int64_t> Range(size_t first) const;

  Interpreter& interpreter_;
  const std::string& self_;
  const View name_;
  const Arguments& arguments_;
};

std::vector<std::string_view> StringCall::SplitAtSpace(int64_t limit, bool from_right) const {
  std::vector<View> parts;
  View rest = Strip(self_, std::nullopt, !from_right, from_right);
  const auto word_end = [&](View text) {
    size_t at = 0;
    while (at < text.size() && !IsSpace(ReadUtf8(text.substr(at)).character)) {
      at += Utf8Length(text[at]);
    }
    return at;
  };
  const auto last_word_begin = [&](View text) {
    size_t at = text.size();
    while (at > 0) {
      size_t begin = at - 1;
      while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
      if (IsSpace(ReadUtf8(text.substr(begin)).character)) break;
      at = begin;
    }
    return at;
  };
  while (!rest.empty()) {
    if (limit >= 0 && static_cast<int64_t>(parts.size()) == limit) {
      parts.push_back(Strip(rest, std::nullopt, from_right, !from_right));
      if (!from_right) parts.back() = rest;
      break;
    }
    if (from_right) {
      const size_t begin = last_word_begin(rest);
      parts.push_back(rest.substr(begin));
      rest = Strip(rest.substr(0, begin), std::nullopt, false, true);
    } else {
      const size_t end = word_end(rest);
      parts.push_back(rest.substr(0, end));
      rest = Strip(rest.substr(end), std::nullopt, true, false);
    }
  }
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

Value StringCall::Split(bool from_right) const {
  const int64_t limit = Integer(1, "maxsplit", -1);
  if (!Argument(0, "sep")) return List(SplitAtSpace(limit, from_right));
  const View separator = Text(0, "sep");
  if (separator.empty()) return Wrong("the separator is empty");
  std::vector<View> parts;
  View rest = self_;
  while (limit < 0 || static_cast<int64_t>(parts.size()) < limit) {
    const size_t at = from_right ? rest.rfind(separator) : rest.find(separator);
    if (at == View::npos) break;
    const View after = rest.substr(at + separator.size());
    parts.push_back(from_right ? after : rest.substr(0, at));
    rest = from_right ? rest.substr(0, at) : after;
  }
  parts.push_back(rest);
  if (from_right) std::reverse(parts.begin(), parts.end());
  return List(parts);
}

Value StringCall::SplitLines() const {
  const Value* keep = Argument(0, "keepends");
  std::vector<View> parts;
  size_t begin = 0;
  for (size_t at = 0; at < self_.size();) {
    const Utf8Sequence next = ReadUtf8(View(self_).substr(at));
    const char32_t c = next.character;
    const bool ends = (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 ||
                      c == 0x2028 || c == 0x2029;
    size_t end = at + next.length;
    if (ends) {
      if (c == '\r' && end < self_.size() && self_[end] == '\n') ++end;
      parts.push_back(View(self_).substr(begin, (keep && keep->Truthy() ? end : at) - begin));
      begin = end;
    }
    at = end;
  }
  if (begin < self_.size()) parts.push_back(View(self_).substr(begin));
  return List(parts);
}

Value StringCall::Partition(bool last) const {
  const View separator = Text(0);
  if (separator.empty()) return Wrong("the separator is empty");
  const View all = self_;
  const size_t at = last ? all.rfind(separator) : all.find(separator);
  if (at == View::npos) {
    return last ? Value::Tuple({Make(""), Make(""), Make(all)})
                : Value::Tuple({Make(all), Make(""), Make("")});
  }
  return Value::Tuple(
      {Make(all.substr(0, at)), Make(separator), Make(all.substr(at + separator.size()))});
}

Value StringCall::Replace() const {
  const View from = Text(0), to = Text(1);
  int64_t left = Integer(2, "count", -1);
  std::string out;
  View rest = self_;
  while (left != 0 && interpreter_.ok()) {
    const size_t at = rest.find(from);
    if (at == View::npos) break;
    // An empty text is found before each character, and at the end.
    const size_t skip = from.empty() && !rest.empty() ? Utf8Length(rest[0]) : 0;
    interpreter_.Charge(to.size());
    out += rest.substr(0, at);
    out += to;
    out += rest.substr(at, skip);
    if (from.empty() && rest.empty()) return Make(out);
    rest = rest.substr(at + from.size() + skip);
    --left;
  }
  out += rest;
  return Make(out);
}

Value StringCall::Join() const {
  if (arguments_.positional.size() != 1) return Wrong("takes one argument");
  std::string out;
  bool first = true;
  for (const Value& item : interpreter_.Iterate(arguments_.positional[0])) {
    if (!item.is(Value::kString)) return Wrong("an item is no text");
    if (!interpreter_.Charge(self_.size() + item.text().size())) break;
    if (!std::exchange(first, false)) out += self_;
    out += item.text();
  }
  return Make(out);
}

std::pair<std::string_view, int64_t> StringCall::Range(size_t first) const {
  const int64_t size = static_cast<int64_t>(CountCharacters(self_));
  const auto clip = [&](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size);
  };
  const int64_t wanted = Integer(first, "", 0);
  const int64_t begin = clip(wanted), end = clip(Integer(first + 1, "", size));
  if (begin > end || wanted > size) return {View(), -1};
  const size_t from = OffsetOfCharacter(self_, begin), to = OffsetOfCharacter(self_, end);
  return {View(self_).substr(from, to - from), begin};
}

Value StringCall::Find(bool last, bool must) const {
  const View wanted = Text(0);
  const auto [text, begin] = Range(1);
  const size_t at = begin < 0 ? View::npos : last ? text.rfind(wanted) : text.find(wanted);
  if (at == View::npos) return must ? Wrong("the text is not there") : Value::Int(-1);
  return Value::Int(begin + static_cast<int64_t>(CountCharacters(text.substr(0, at))));
}

Value StringCall::Affix(bool at_end) const {
  const auto [text, begin] = Range(1);
  const auto has = [&, range = text, start = begin](const Value& affix) {
    if (!affix.is(Value::kString)) {
      Wrong("the argument is no text");
      return false;
    }
    return start >= 0 && (at_end ? range.ends_with(affix.text()) : range.starts_with(affix.text()));
  };
  const Value* affix = Argument(0);
  if (!affix) return Wrong("needs an argument");
  if (!affix->is(Value::kTuple)) return Value::Bool(has(*affix));
  return Value::Bool(std::any_of(affix->items().begin(), affix->items().end(), has));
}

Value StringCall::Count() const {
  const View wanted = Text(0);
  const auto [text, begin] = Range(1);
  if (begin < 0) return Value::Int(0);
  if (wanted.empty()) return Value::Int(static_cast<int64_t>(CountCharacters(text)) + 1);
  int64_t count = 0;
  for (size_t at = text.find(wanted); at != View::npos;
       at = text.find(wanted, at + wanted.size())) {
    ++count;
  }
  return Value::Int(count);
}

Value StringCall::Justify() const {
  const int64_t width = Integer(0, "", 0);
  const View fill = Argument(1) ? Text(1) : View(" ");
  if (CountCharacters(fill) != 1) return Wrong("the fill is not one character");
  const int64_t missing = width - static_cast<int64_t>(CountCharacters(self_));
  if (missing <= 0) return Make(self_);
  if (!interpreter_.Charge(static_cast<size_t>(missing) * fill.size())) return Value();
  int64_t left = name_ == "ljust" ? 0 : missing;
  if (name_ == "center") left = missing / 2 + (missing & width & 1);
  std::string out;
  for (int64_t i = 0; i < left; ++i) out += fill;
  out += self_;
  for (int64_t i = left; i < missing; ++i) out += fill;
  return Make(out);
}

Value StringCall::ZeroFill() const {
  const int64_t missing = Integer(0, "", 0) - static_cast<int64_t>(CountCharacters(self_));
  if (missing <= 0) return Make(self_);
  if (!interpreter_.Charge(static_cast<size_t>(missing))) return Value();
  const size_t sign = self_.starts_with('-') || self_.starts_with('+') ? 1 : 0;
  return Make(self_.substr(0, sign) + std::string(missing, '0') + self_.substr(sign));
}

Value StringCall::Title() const {
  std::string out;
  bool in_word = false;
  for (const char32_t c : Characters(self_)) {
    const bool cased = CategoryOf(c) <= Category::kLt;
    if (in_word) {
      AppendLowerCase(c, out);
    } else {
      AppendUpperCase(c, out);
    }
    in_word = cased;
  }
  return Make(out);
}

Value StringCall::SwapCase() const {
  std::string out;
  for (const char32_t c : Characters(self_)) {
    if (CategoryOf(c) == Category::kLu) {
      AppendLowerCase(c, out);
    } else {
      AppendUpperCase(c, out);
    }
  }
  return Make(out);
}

Value StringCall::ExpandTabs() const {
  const int64_t width = std::min<int64_t>(Integer(0, "tabsize", 8), 1000);
  std::string out;
  int64_t column = 0;
  for (const char32_t c : Characters(self_)) {
    if (c != '\t') {
      AppendUtf8(c, out);
      column = c == '\n' || c == '\r' ? 0 : column + 1;
    } else if (width > 0) {
      const int64_t spaces = width - column % width;
      if (!interpreter_.Charge(static_cast<size_t>(spaces))) break;
      out.append(static_cast<size_t>(spaces), ' ');
      column += spaces;
    }
  }
  return Make(out);
}

bool StringCall::IsCased() const {
  const Category wrong = name_ == "islower" ? Category::kLu : Category::kLl;
  const Category right = name_ == "islower" ? Category::kLl : Category::kLu;
  bool found = false;
  for (const char32_t c : Characters(self_)) {
    const Category category = CategoryOf(c);
    if (category == wrong || category == Category::kLt) return false;
    found |= category == right;
  }
  return found;
}

// The predicates; nullopt: `name_` is none.
std::optional<bool> StringCall::Is() const {
  using Test = std::function<bool(char32_t)>;
  const auto all = [&](const Test& test, bool of_empty = false) {
    const std::u32string characters = Characters(self_);
    if (characters.empty()) return of_empty;
    return std::all_of(characters.begin(), characters.end(), test);
  };
  const Test alpha = [](char32_t c) { return IsLetter(CategoryOf(c)); };
  const Test decimal = [](char32_t c) { return CategoryOf(c) == Category::kNd; };
  const Test digit = [&](char32_t c) {
    return decimal(c) || c == 0xB2 || c == 0xB3 || c == 0xB9 || (c >= 0x2070 && c <= 0x2089);
  };
  const Test numeric = [](char32_t c) {
    const Category category = CategoryOf(c);
    return category >= Category::kNd && category <= Category::kNo;
  };
  if (name_ == "isalpha") return all(alpha);
  if (name_ == "isdecimal") return all(decimal);
  if (name_ == "isdigit") return all(digit);
  if (name_ == "isnumeric") return all(numeric);
  if (name_ == "isalnum") return all([&](char32_t c) { return alpha(c) || numeric(c); });
  if (name_ == "isspace") return all(IsSpace);
  if (name_ == "isascii") return all([](char32_t c) { return c < 0x80; }, true);
  if (name_ == "isprintable") return all(IsPrintable, true);
  if (name_ == "islower" || name_ == "isupper") return IsCased();
  if (name_ == "istitle")
    return IsCased() || (Title().Str() == self_ && Upper(self_) != Lower(self_));
  if (name_ == "isidentifier") {
    const bool starts = !self_.empty() && (self_[0] == '_' || alpha(ReadUtf8(self_).character));
    return starts && all([&](char32_t c) {
             return c == '_' || alpha(c) || decimal(c) || CategoryOf(c) == Category::kMn;
           });
  }
  return std::nullopt;
}

Value StringCall::Run() {
  if (!interpreter_.Charge(self_.size() / 4)) return Value();
  if (const std::optional<bool> is = Is()) return Value::Bool(*is);
  if (name_ == "strip" || name_ == "lstrip" || name_ == "rstrip") {
    std::optional<View> set;
    if (Argument(0)) set = Text(0);
    return Make(Strip(self_, set, name_ != "rstrip", name_ != "lstrip"));
  }
  if (name_ == "split" || name_ == "rsplit") return Split(name_ == "rsplit");
  if (name_ == "splitlines") return SplitLines();
  if (name_ == "partition" || name_ == "rpartition") return Partition(name_ == "rpartition");
  if (name_ == "replace") return Replace();
  if (name_ == "join") return Join();
  if (name_ == "find" || name_ == "index") return Find(/*last=*/false, name_ == "index");
  if (name_ == "rfind" || name_ == "rindex") return Find(/*last=*/true, name_ == "rindex");
  if (name_ == "startswith" || name_ == "endswith") return Affix(name_ == "endswith");
  if (name_ == "count") return Count();
  if (name_ == "ljust" || name_ == "rjust" || name_ == "center") return Justify();
  if (name_ == "zfill") return ZeroFill();
  if (name_ == "lower" || name_ == "casefold") return Make(Lower(self_));
  if (name_ == "upper") return Make(Upper(self_));
  if (name_ == "capitalize") return Make(Capitalize(self_));
  if (name_ == "title") return Title();
  if (name_ == "swapcase") return SwapCase();
  if (name_ == "expandtabs") return ExpandTabs();
  if (name_ == "removeprefix") {
    const View prefix = Text(0);
    return Make(self_.starts_with(prefix) ? View(self_).substr(prefix.size()) : View(self_));
  }
  if (name_ == "removesuffix") {
    const View suffix = Text(0);
    const bool has = self_.ends_with(suffix);
    return Make(View(self_).substr(0, self_.size() - (has ? suffix.size() : 0)));
  }
  if (name_ == "format_map") {
    Arguments named;
    const Value* map = Argument(0);
    if (!map || !map->is(Value::kDict)) return Wrong("the argument is no dict");
    for (const auto& [key, value] : map->dict().entries())
      named.named.emplace_back(key.Str(), value);
    return FormatBraces(interpreter_, self_, named);
  }
  return FormatBraces(interpreter_, self_, arguments_);
}

}  // namespace

Value CallStringMethod(Interpreter& interpreter, const std::string& self, std::string_view name,
                       const Arguments& arguments) {
  return StringCall(interpreter, self, name, arguments).Run();
}

}  // namespace hydrant::engine::chat
