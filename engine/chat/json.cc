// Values to JSON, as Python's json.dumps writes it.

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "engine/chat/interpreter.h"
#include "engine/tokenizer/utf8.h"

namespace hydrant::engine::chat {
namespace {

void AppendEscape(uint32_t unit, std::string& out) {
  char code[16];
  std::snprintf(code, sizeof(code), "\\u%04x", unit);
  out += code;
}

void AppendQuoted(std::string_view text, bool ensure_ascii, std::string& out) {
  out += '"';
  while (!text.empty()) {
    const Utf8Sequence next = ReadUtf8(text);
    const char32_t c = next.character;
    constexpr std::string_view kPlain = "\"\\\n\r\t\f\b", kLetters = "\"\\nrtfb";
    const size_t simple = c < 0x80 ? kPlain.find(static_cast<char>(c)) : std::string_view::npos;
    if (simple != std::string_view::npos) {
      out += '\\';
      out += kLetters[simple];
    } else if (c < 0x20 || (ensure_ascii && c >= 0x7F && c < 0x10000 && c != 0x7F)) {
      AppendEscape(c, out);
    } else if (ensure_ascii && c >= 0x10000) {
      AppendEscape(0xD800 + ((c - 0x10000) >> 10), out);
      AppendEscape(0xDC00 + ((c - 0x10000) & 0x3FF), out);
    } else {
      out += text.substr(0, next.length);
    }
    text.remove_prefix(next.length);
  }
  out += '"';
}

class Writer {
 public:
  Writer(Interpreter& interpreter, const JsonStyle& style)
      : interpreter_(interpreter), style_(style) {}

  void Write(const Value& value, int depth) {
    if (!interpreter_.Step() || !interpreter_.Charge(out_.size() - charged_)) return;
    charged_ = out_.size();
    switch (value.kind()) {
      case Value::kNone:
        out_ += "null";
        break;
      case Value::kBool:
        out_ += value.integer() ? "true" : "false";
        break;
      case Value::kInt:
        absl::StrAppend(&out_, value.integer());
        break;
      case Value::kFloat:
        out_ += Number(value.number());
        break;
      case Value::kString:
        AppendQuoted(value.text(), style_.ensure_ascii, out_);
        break;
      case Value::kList:
      case Value::kTuple:
        WriteList(value.items(), depth);
        break;
      case Value::kDict:
        WriteDict(value.dict(), depth);
        break;
      default:
        interpreter_.Fail(
            absl::StrCat("a ", std::string(value.type_name()), " cannot be written as JSON"));
    }
  }

  std::string out_;

 private:
  static std::string Number(double number) {
    if (std::isnan(number)) return "NaN";
    if (std::isinf(number)) return number < 0 ? "-Infinity" : "Infinity";
    return FloatRepr(number);
  }

  void NewLine(int depth) {
    if (!style_.indent) return;
    out_ += '\n';
    for (int i = 0; i < depth; ++i) out_ += *style_.indent;
  }

  void WriteList(const std::vector<Value>& items, int depth) {
    if (items.empty()) {
      out_ += "[]";
      return;
    }
    out_ += '[';
    for (size_t i = 0; i < items.size() && interpreter_.ok(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      NewLine(depth + 1);
      Write(items[i], depth + 1);
    }
    NewLine(depth);
    out_ += ']';
  }

  void WriteDict(const Dict& dict, int depth) {
    if (dict.size() == 0) {
      out_ += "{}";
      return;
    }
    std::vector<const Dict::Entry*> entries;
    for (const Dict::Entry& entry : dict.entries()) entries.push_back(&entry);
    if (style_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(), [&](const auto* a, const auto* b) {
        return interpreter_.Compare("<", a->first, b->first);
      });
    }
    out_ += '{';
    for (size_t i = 0; i < entries.size() && interpreter_.ok(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      NewLine(depth + 1);
      WriteKey(entries[i]->first);
      out_ += style_.key_separator;
      Write(entries[i]->second, depth + 1);
    }
    NewLine(depth);
    out_ += '}';
  }

  void WriteKey(const Value& key) {
    std::string text;
    if (key.is(Value::kString)) {
      text = key.text();
    } else if (key.is(Value::kBool)) {
      text = key.integer() ? "true" : "false";
    } else if (key.is(Value::kNone)) {
      text = "null";
    } else if (key.is(Value::kFloat)) {
      text = Number(key.number());
    } else if (key.is(Value::kInt)) {
      text = key.Str();
    } else {
      interpreter_.Fail("a key cannot be written as JSON");
    }
    AppendQuoted(text, style_.ensure_ascii, out_);
  }

  Interpreter& interpreter_;
  const JsonStyle& style_;
  size_t charged_ = 0;
};

}  // namespace

Value ToJson(Interpreter& interpreter, const Value& value, const JsonStyle& style) {
  Writer writer(interpreter, style);
  writer.Write(value, 0);
  return interpreter.MakeString(std::move(writer.out_));
}

}  // namespace hydrant::engine::chat
