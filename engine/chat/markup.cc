// Texts that are HTML: what the filters safe and escape make, as MarkupSafe has them. They escape
// every text that is joined to them or put into them, and what is cut out of them is markup too.

#include <utility>

#include "engine/chat/interpreter.h"

namespace hydrant::engine::chat {
namespace {

std::string EscapeHtml(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&#34;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

// Texts among the values that a format takes; numbers keep their formats.
Value EscapeText(Interpreter& interpreter, const Value& value) {
  return value.is_number() ? value : Escape(interpreter, value);
}

// The arguments that a method of markup writes into its result.
void EscapeWritten(Interpreter& interpreter, std::string_view name, Arguments* arguments) {
  std::vector<Value>& positional = arguments->positional;
  if (name == "format") {
    for (Value& value : positional) value = EscapeText(interpreter, value);
    for (auto& [key, value] : arguments->named) value = EscapeText(interpreter, value);
  } else if (name == "format_map" && !positional.empty() && positional[0].is(Value::kDict)) {
    Dict escaped;
    for (const auto& [key, value] : positional[0].dict().entries()) {
      escaped.Set(key, EscapeText(interpreter, value));
    }
    positional[0] = Value::OfDict(std::move(escaped));
  } else if (name == "join" && !positional.empty()) {
    std::vector<Value> items = interpreter.Iterate(positional[0]);
    for (Value& item : items) item = Escape(interpreter, item);
    positional[0] = interpreter.MakeList(std::move(items));
  } else if (positional.size() > 1 &&
             (name == "replace" || name == "center" || name == "ljust" || name == "rjust")) {
    positional[1] = Escape(interpreter, positional[1]);
  }
}

}  // namespace

Value Escape(Interpreter& interpreter, const Value& value) {
  if (value.is_markup()) return value;
  return interpreter.MakeString(EscapeHtml(value.Str())).AsMarkup();
}

Value AddMarkup(Interpreter& interpreter, const Value& left, const Value& right) {
  const Value first = Escape(interpreter, left), second = Escape(interpreter, right);
  if (!interpreter.ok()) return Value();
  return interpreter.MakeString(first.text() + second.text()).AsMarkup();
}

Value FormatMarkup(Interpreter& interpreter, const Value& markup, const Value& values) {
  Value escaped;
  if (values.is(Value::kTuple)) {
    std::vector<Value> items = values.items();
    for (Value& item : items) item = EscapeText(interpreter, item);
    escaped = Value::Tuple(std::move(items));
  } else if (values.is(Value::kDict)) {
    Dict dict;
    for (const auto& [key, value] : values.dict().entries()) {
      dict.Set(key, EscapeText(interpreter, value));
    }
    escaped = Value::OfDict(std::move(dict));
  } else {
    escaped = EscapeText(interpreter, values);
  }
  return FormatPercent(interpreter, markup.text(), escaped).AsMarkup();
}

Value CallTextMethod(Interpreter& interpreter, const Value& self, std::string_view name,
                     const Arguments& arguments) {
  if (!self.is_markup()) return CallStringMethod(interpreter, self.text(), name, arguments);
  Arguments escaped = arguments;
  EscapeWritten(interpreter, name, &escaped);
  if (!interpreter.ok()) return Value();
  const Value result = CallStringMethod(interpreter, self.text(), name, escaped);
  if (!result.is(Value::kList) && !result.is(Value::kTuple)) return result.AsMarkup();
  std::vector<Value> parts = result.items();
  for (Value& part : parts) part = part.AsMarkup();
  return result.is(Value::kTuple) ? Value::Tuple(std::move(parts)) : Value::List(std::move(parts));
}

}  // namespace hydrant::engine::chat
