#include "engine/chat/value.h"

#include <charconv>
#include <cmath>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "engine/chat/characters.h"
#include "engine/tokenizer/utf8.h"

namespace hydrant::engine::chat {
namespace {

constexpr int kMaxReprDepth = 100;

std::string Joined(const std::vector<Value>& items, int depth) {
  std::string out;
  for (const Value& item : items) {
    if (!out.empty()) out += ", ";
    out += item.Repr(depth + 1);
  }
  return out;
}

}  // namespace

const Value* Arguments::Find(size_t index, std::string_view name) const {
  if (index < positional.size()) return &positional[index];
  for (const auto& [key, value] : named) {
    if (key == name) return &value;
  }
  return nullptr;
}

std::string Object::Repr(int) const {
  return absl::StrCat("<", std::string(type_name()), " object>");
}

bool Object::SetAttribute(std::string_view, Value) { return false; }

Value Object::Call(Interpreter&, const Arguments&) { return Value(); }

std::optional<Value> Object::Attribute(std::string_view) const { return std::nullopt; }

Value Value::Undefined(std::string why) {
  Value value;
  value.data_ = std::make_shared<const std::string>(std::move(why));
  return value;
}

Value Value::None() {
  Value value;
  value.kind_ = kNone;
  return value;
}

Value Value::Bool(bool b) {
  Value value;
  value.kind_ = kBool;
  value.data_ = int64_t{b};
  return value;
}

Value Value::Int(int64_t i) {
  Value value;
  value.kind_ = kInt;
  value.data_ = i;
  return value;
}

Value Value::Float(double f) {
  Value value;
  value.kind_ = kFloat;
  value.data_ = f;
  return value;
}

Value Value::String(std::string text) {
  Value value;
  value.kind_ = kString;
  value.data_ = std::make_shared<const std::string>(std::move(text));
  return value;
}

Value Value::AsMarkup() const {
  Value value = *this;
  value.markup_ = is(kString);
  return value;
}

Value Value::Make(Kind kind, std::vector<Value> items) {
  auto sequence = std::make_shared<Sequence>();
  for (const Value& item : items) sequence->depth = std::max(sequence->depth, item.depth() + 1);
  sequence->items = std::move(items);
  Value value;
  value.kind_ = kind;
  value.data_ = std::move(sequence);
  return value;
}

Value Value::Group(Value grouper, Value list) {
  Value value = Tuple({std::move(grouper), std::move(list)});
  std::get<std::shared_ptr<Sequence>>(value.data_)->is_group = true;
  return value;
}

bool Value::is_group() const {
  return kind_ == kTuple && std::get<std::shared_ptr<Sequence>>(data_)->is_group;
}

Value Value::OfDict(Dict dict) {
  Value value;
  value.kind_ = kDict;
  value.data_ = std::make_shared<const Dict>(std::move(dict));
  return value;
}

Value Value::OfObject(std::shared_ptr<Object> object) {
  Value value;
  value.kind_ = kObject;
  value.data_ = std::move(object);
  return value;
}

int64_t Value::integer() const { return std::get<int64_t>(data_); }

double Value::number() const {
  return kind_ == kFloat ? std::get<double>(data_) : static_cast<double>(integer());
}

const std::string& Value::text() const {
  return *std::get<std::shared_ptr<const std::string>>(data_);
}

const std::vector<Value>& Value::items() const {
  return std::get<std::shared_ptr<Sequence>>(data_)->items;
}

std::vector<Value> Value::TakeItems() const {
  Sequence& sequence = *std::get<std::shared_ptr<Sequence>>(data_);
  return kind_ == kGenerator ? std::exchange(sequence.items, {}) : sequence.items;
}

const Dict& Value::dict() const { return *std::get<std::shared_ptr<const Dict>>(data_); }

Object& Value::object() const { return *shared_object(); }

const std::shared_ptr<Object>& Value::shared_object() const {
  return std::get<std::shared_ptr<Object>>(data_);
}

std::string_view Value::why() const {
  const auto* text = std::get_if<std::shared_ptr<const std::string>>(&data_);
  return kind_ == kUndefined && text ? std::string_view(**text) : "a value is undefined";
}

bool Value::Truthy() const {
  switch (kind_) {
    case kUndefined:
    case kNone:
      return false;
    case kBool:
    case kInt:
      return integer() != 0;
    case kFloat:
      return number() != 0;
    case kString:
      return !text().empty();
    case kList:
    case kTuple:
    case kView:
      return !items().empty();
    case kDict:
      return dict().size() != 0;
    case kGenerator:
    case kObject:
      return true;
  }
  return false;
}

bool Value::SameAs(const Value& other) const {
  if (kind_ != other.kind_) return false;
  switch (kind_) {
    case kString:  // equal short texts are mostly one object in Python
      return text() == other.text();
    case kUndefined:
      return false;
    default:
      return data_ == other.data_;
  }
}

int Value::depth() const {
  if (is_sequence()) return std::get<std::shared_ptr<Sequence>>(data_)->depth;
  return kind_ == kDict ? dict().depth() : 0;
}

std::string Value::Str() const {
  if (kind_ == kString) return text();
  return kind_ == kUndefined ? std::string() : Repr();
}

std::string Value::Repr(int depth) const {
  if (depth > kMaxReprDepth) return "...";
  switch (kind_) {
    case kUndefined:
      return "Undefined";
    case kNone:
      return "None";
    case kBool:
      return integer() ? "True" : "False";
    case kInt:
      return std::to_string(integer());
    case kFloat:
      return FloatRepr(number());
    case kString:
      return markup_ ? absl::StrCat("Markup(", StringRepr(text()), ")") : StringRepr(text());
    case kList:
      return absl::StrCat("[", Joined(items(), depth), "]");
    case kTuple:
      return absl::StrCat("(", Joined(items(), depth), items().size() == 1 ? ",)" : ")");
    case kView:
      return absl::StrCat("dict_view([", Joined(items(), depth), "])");
    case kGenerator:
      return "<generator object>";
    case kDict: {
      std::string out = "{";
      for (const auto& [key, value] : dict().entries()) {
        if (out.size() > 1) out += ", ";
        out += key.Repr(depth + 1) + ": " + value.Repr(depth + 1);
      }
      return out + "}";
    }
    case kObject:
      return object().Repr(depth);
  }
  return {};
}

std::string_view Value::type_name() const {
  switch (kind_) {
    case kUndefined:
      return "Undefined";
    case kNone:
      return "NoneType";
    case kBool:
      return "bool";
    case kInt:
      return "int";
    case kFloat:
      return "float";
    case kString:
      return "str";
    case kList:
      return "list";
    case kTuple:
      return "tuple";
    case kView:
      return "dict_view";
    case kGenerator:
      return "generator";
    case kDict:
      return "dict";
    case kObject:
      return object().type_name();
  }
  return {};
}

std::string Value::type_description() const {
  if (kind_ == kNone) return "None";
  return absl::StrCat(std::string(type_name()), " object");
}

bool Dict::Set(Value key, Value value) {
  std::optional<std::string> hash = HashKey(key);
  if (!hash) return false;
  depth_ = std::max({depth_, key.depth() + 1, value.depth() + 1});
  const auto [found, inserted] = index_.try_emplace(*std::move(hash), entries_.size());
  if (inserted) {
    entries_.emplace_back(std::move(key), std::move(value));
  } else {
    entries_[found->second].second = std::move(value);
  }
  return true;
}

const Value* Dict::Find(const Value& key) const {
  const std::optional<std::string> hash = HashKey(key);
  if (!hash) return nullptr;
  const auto found = index_.find(*hash);
  return found == index_.end() ? nullptr : &entries_[found->second].second;
}

const Value* Dict::Find(std::string_view key) const {
  const auto found = index_.find("s" + std::string(key));
  return found == index_.end() ? nullptr : &entries_[found->second].second;
}

std::optional<std::string> HashKey(const Value& value) {
  switch (value.kind()) {
    case Value::kUndefined:
      return "U";
    case Value::kNone:
      return "N";
    case Value::kBool:
    case Value::kInt:
      return absl::StrCat("n", value.integer());
    case Value::kFloat: {
      const double number = value.number();
      if (number == std::floor(number) && std::abs(number) < 9e18) {
        return absl::StrCat("n", static_cast<int64_t>(number));
      }
      return "f" + FloatRepr(number);
    }
    case Value::kString:
      return "s" + value.text();
    case Value::kTuple: {
      std::string out = "t";
      for (const Value& item : value.items()) {
        const std::optional<std::string> part = HashKey(item);
        if (!part) return std::nullopt;
        absl::StrAppend(&out, part->size(), ":", *part);
      }
      return out;
    }
    case Value::kObject:
      return absl::StrCat("o", reinterpret_cast<uintptr_t>(&value.object()));
    default:
      return std::nullopt;
  }
}

bool Equal(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    return a.is_integer() && b.is_integer() ? a.integer() == b.integer() : a.number() == b.number();
  }
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Value::kString:
      return a.text() == b.text();
    case Value::kList:
    case Value::kTuple:
    case Value::kView:
      return std::equal(a.items().begin(), a.items().end(), b.items().begin(), b.items().end(),
                        Equal);
    case Value::kDict: {
      if (a.dict().size() != b.dict().size()) return false;
      for (const auto& [key, value] : a.dict().entries()) {
        const Value* other = b.dict().Find(key);
        if (!other || !Equal(value, *other)) return false;
      }
      return true;
    }
    case Value::kUndefined:
    case Value::kNone:
      return true;
    default:
      return a.SameAs(b);
  }
}

std::optional<int> Compare(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    if (a.is_integer() && b.is_integer()) {
      return a.integer() < b.integer() ? -1 : a.integer() > b.integer();
    }
    return a.number() < b.number() ? -1 : a.number() > b.number();
  }
  if (a.kind() != b.kind()) return std::nullopt;
  // Bytes of UTF-8 are ordered as their characters are.
  if (a.is(Value::kString)) return a.text().compare(b.text());
  if (!a.is(Value::kList) && !a.is(Value::kTuple)) return std::nullopt;
  for (size_t i = 0; i < a.items().size() && i < b.items().size(); ++i) {
    if (Equal(a.items()[i], b.items()[i])) continue;
    return Compare(a.items()[i], b.items()[i]);
  }
  return a.items().size() < b.items().size() ? -1 : a.items().size() > b.items().size();
}

// Shortest digits that read back the same; an exponent below 1e-4 and from 1e16 (CPython's repr).
std::string FloatRepr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char digits[32];
  const auto end =
      std::to_chars(digits, digits + sizeof(digits), value, std::chars_format::scientific);
  const std::string_view text(digits, end.ptr - digits);
  const size_t e = text.find('e');
  const int exponent = std::atoi(std::string(text.substr(e + 1)).c_str());
  if (exponent < -4 || exponent >= 16) {
    return absl::StrCat(std::string(text.substr(0, e)), exponent < 0 ? "e-" : "e+",
                        std::abs(exponent) < 10 ? "0" : "", std::abs(exponent));
  }
  char fixed[64];
  const auto stop = std::to_chars(fixed, fixed + sizeof(fixed), value, std::chars_format::fixed);
  std::string out(fixed, stop.ptr);
  if (out.find('.') == std::string::npos) out += ".0";
  return out;
}

std::string StringRepr(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const bool has_double = text.find('"') != std::string_view::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  std::string out(1, quote);
  while (!text.empty()) {
    const Utf8Sequence next = ReadUtf8(text);
    const char32_t c = next.character;
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (IsPrintable(c)) {
      out += text.substr(0, next.length);
    } else {
      char escape[16];
      std::snprintf(escape, sizeof(escape),
                    c < 0x100     ? "\\x%02x"
                    : c < 0x10000 ? "\\u%04x"
                                  : "\\U%08x",
                    static_cast<unsigned>(c));
      out += escape;
    }
    text.remove_prefix(next.length);
  }
  return out + quote;
}

}  // namespace hydrant::engine::chat
