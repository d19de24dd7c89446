// Expressions: names, attributes, items, slices and calls.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/chat/characters.h"
#include "engine/chat/interpreter.h"
#include "engine/tokenizer/utf8.h"

namespace hydrant::engine::chat {

Value Interpreter::Lookup(std::string_view name) const {
  for (const Frame* frame = frame_.get(); frame; frame = frame->parent.get()) {
    for (const auto& [key, value] : frame->names) {
      if (key == name) return value;
    }
  }
  if (const Value* variable = variables_.Find(name)) return *variable;
  if (const GlobalFunction function = FindGlobal(name)) return MakeFunction(name, function);
  return Value::Undefined(absl::StrCat("'", std::string(name), "' is undefined"));
}

Value Interpreter::Evaluate(const Expression& expression) {
  if (++depth_ > kMaxDepth) Fail("the template recurses too deeply");
  Value value;
  if (Step()) {
    value = EvaluateKind(expression);
  }
  --depth_;
  return value;
}

Value Interpreter::EvaluateKind(const Expression& expression) {
  const std::vector<ExpressionPtr>& operands = expression.operands;
  const auto operand = [&](size_t i) { return Evaluate(*operands[i]); };
  const auto here = [&] { position_ = expression.position; };
  switch (expression.kind) {
    case Expression::kConstant:
      return expression.constant;
    case Expression::kName:
      here();
      return Lookup(expression.name);
    case Expression::kTuple:
    case Expression::kList: {
      std::vector<Value> items;
      for (const ExpressionPtr& item : operands) items.push_back(Evaluate(*item));
      if (expression.kind == Expression::kTuple) return Value::Tuple(std::move(items));
      return MakeList(std::move(items));
    }
    case Expression::kDict:
      return EvaluateDict(expression);
    case Expression::kGetAttr: {
      const Value value = operand(0);
      here();
      return GetAttribute(value, expression.name);
    }
    case Expression::kGetItem: {
      const Value value = operand(0);
      if (operands[1]->kind == Expression::kSlice) return Slice(value, *operands[1]);
      const Value key = operand(1);
      here();
      return GetItem(value, key);
    }
    case Expression::kCall: {
      const Value callee = operand(0);
      const Arguments arguments = EvaluateArguments(expression.arguments);
      here();
      return Call(callee, arguments);
    }
    case Expression::kFilter:
      return EvaluateFilters(expression, Value());
    case Expression::kTest: {
      const Value value = operand(0);
      const Arguments arguments = EvaluateArguments(expression.arguments);
      here();
      return Value::Bool(ApplyTest(expression.name, value, arguments));
    }
    case Expression::kNot:
      return Value::Bool(!operand(0).Truthy());
    case Expression::kNegative:
    case Expression::kPositive: {
      const Value value = operand(0);
      here();
      return Unary(expression.kind == Expression::kNegative ? '-' : '+', value);
    }
    case Expression::kAnd:
    case Expression::kOr: {
      const Value left = operand(0);
      return left.Truthy() == (expression.kind == Expression::kOr) ? left : operand(1);
    }
    case Expression::kConditional:
      if (operand(0).Truthy()) return operand(1);
      if (operands[2]) return operand(2);
      return Value::Undefined("an inline if without else was false");
    case Expression::kCompare:
      return EvaluateCompare(expression);
    case Expression::kBinary: {
      const Value left = operand(0);
      const Value right = operand(1);
      here();
      return Binary(expression.name, left, right);
    }
    case Expression::kConcat: {
      std::string text;
      for (const ExpressionPtr& part : operands) text += Evaluate(*part).Str();
      return MakeString(std::move(text));
    }
    case Expression::kSlice:
    case Expression::kNamespaceAttribute:
      break;  // only within other kinds
  }
  return Value();
}

Value Interpreter::EvaluateDict(const Expression& expression) {
  Dict dict;
  for (size_t i = 0; i + 1 < expression.operands.size(); i += 2) {
    Value key = Evaluate(*expression.operands[i]);
    Value value = Evaluate(*expression.operands[i + 1]);
    position_ = expression.operands[i]->position;
    if (!Charge(2 * sizeof(Value))) return Value();
    const std::string type(key.type_name());
    if (!dict.Set(std::move(key), std::move(value))) {
      return Fail(absl::StrCat("a ", type, " cannot be a key"));
    }
  }
  if (dict.depth() > kMaxDepth) return Fail("dicts are nested too deeply");
  return Value::OfDict(std::move(dict));
}

Value Interpreter::EvaluateCompare(const Expression& expression) {
  Value left = Evaluate(*expression.operands[0]);
  for (size_t i = 0; i < expression.operators.size(); ++i) {
    Value right = Evaluate(*expression.operands[i + 1]);
    position_ = expression.position;
    const std::string& op = expression.operators[i];
    if (!Compare(op, left, right) || !ok()) return Value::Bool(false);
    left = std::move(right);
  }
  return Value::Bool(true);
}

Value Interpreter::EvaluateFilters(const Expression& expression, const Value& innermost) {
  const ExpressionPtr& operand = expression.operands[0];
  const Value value = !operand                               ? innermost
                      : operand->kind == Expression::kFilter ? EvaluateFilters(*operand, innermost)
                                                             : Evaluate(*operand);
  const Arguments arguments = EvaluateArguments(expression.arguments);
  position_ = expression.position;
  return ApplyFilter(expression.name, value, arguments);
}

Arguments Interpreter::EvaluateArguments(const CallArguments& arguments) {
  Arguments values;
  for (const ExpressionPtr& argument : arguments.positional) {
    values.positional.push_back(Evaluate(*argument));
  }
  for (const auto& [name, argument] : arguments.named) {
    values.named.emplace_back(name, Evaluate(*argument));
  }
  if (arguments.star) {
    for (Value& value : Iterate(Evaluate(*arguments.star))) {
      values.positional.push_back(std::move(value));
    }
  }
  if (arguments.double_star) {
    const Value value = Evaluate(*arguments.double_star);
    if (ok() && !value.is(Value::kDict)) Fail("what follows ** is no dict");
    if (!ok()) return values;
    for (const auto& [key, held] : value.dict().entries()) {
      if (!key.is(Value::kString)) Fail("a keyword argument's name is no text");
      if (ok()) values.named.emplace_back(key.text(), held);
    }
  }
  return values;
}

Value Interpreter::Call(const Value& callee, const Arguments& arguments) {
  if (!ok()) return Value();
  if (callee.is(Value::kUndefined)) return Fail(callee.why());
  if (!callee.is(Value::kObject) || !callee.object().callable()) {
    return Fail(absl::StrCat("'", callee.type_description(), "' is not callable"));
  }
  return callee.object().Call(*this, arguments);
}

Value Interpreter::ApplyFilter(std::string_view name, const Value& value,
                               const Arguments& arguments) {
  if (!ok()) return Value();
  FilterFunction filter = FindFilter(name);
  if (!filter) filter = FindSequenceFilter(name);
  if (!filter) {
    return Fail(absl::StrCat("the filter '", std::string(name), "' is not supported"),
                absl::StatusCode::kUnimplemented);
  }
  Step();
  return filter(*this, value, arguments);
}

bool Interpreter::ApplyTest(std::string_view name, const Value& value, const Arguments& arguments) {
  if (!ok()) return false;
  const TestFunction test = FindTest(name);
  if (test) return Step() && test(*this, value, arguments);
  Fail(absl::StrCat("the test '", std::string(name), "' is not supported"),
       absl::StatusCode::kUnimplemented);
  return false;
}

Value Interpreter::GetAttribute(const Value& value, std::string_view name) {
  if (!ok()) return Value();
  if (value.is(Value::kUndefined)) return Fail(value.why());
  if (name.starts_with("__")) {
    return Value::Undefined(absl::StrCat("access to attribute '", std::string(name), "' of ",
                                         value.type_description(), " is unsafe"));
  }
  if (HasMethod(value, name)) return BindMethod(value, name);
  if (value.is(Value::kObject)) {
    if (std::optional<Value> attribute = value.object().Attribute(name)) return *attribute;
  }
  if (value.is_group() && name == "grouper") return value.items()[0];
  if (value.is_group() && name == "list") return value.items()[1];
  if (value.is(Value::kDict)) {
    if (const Value* found = value.dict().Find(name)) return *found;
  }
  return Value::Undefined(
      absl::StrCat("'", value.type_description(), "' has no attribute '", std::string(name), "'"));
}

Value Interpreter::GetItem(const Value& value, const Value& key) {
  if (!ok()) return Value();
  if (value.is(Value::kUndefined)) return Fail(value.why());
  if (value.is(Value::kDict)) {
    if (const Value* found = value.dict().Find(key)) return *found;
  }
  const bool indexable = value.is(Value::kList) || value.is(Value::kTuple);
  if (key.is_integer() && (indexable || value.is(Value::kString))) {
    if (value.is(Value::kString)) Charge(value.text().size());
    const int64_t size =
        static_cast<int64_t>(indexable ? value.items().size() : CountCharacters(value.text()));
    const int64_t index = key.integer() < 0 ? key.integer() + size : key.integer();
    if (index >= 0 && index < size) {
      if (indexable) return value.items()[index];
      const std::string_view rest =
          std::string_view(value.text()).substr(OffsetOfCharacter(value.text(), index));
      const Value character = Value::String(std::string(rest.substr(0, Utf8Length(rest[0]))));
      return value.is_markup() ? character.AsMarkup() : character;
    }
  }
  if (key.is(Value::kString)) {
    const std::string& name = key.text();
    if (HasMethod(value, name)) return BindMethod(value, name);
    if (value.is(Value::kObject)) {
      if (std::optional<Value> attribute = value.object().Attribute(name)) return *attribute;
    }
  }
  return Value::Undefined(absl::StrCat("'", value.type_description(), "' has no ",
                                       key.is(Value::kString) ? "attribute " : "element ",
                                       key.Repr()));
}

Value Interpreter::Slice(const Value& value, const Expression& slice) {
  Value bounds[3];
  for (int i = 0; i < 3; ++i) {
    bounds[i] = slice.operands[i] ? Evaluate(*slice.operands[i]) : Value::None();
  }
  position_ = slice.position;
  if (!ok()) return Value();
  if (value.is(Value::kUndefined)) return Fail(value.why());
  const bool is_text = value.is(Value::kString);
  if (!is_text && !value.is(Value::kList) && !value.is(Value::kTuple)) {
    return Fail(absl::StrCat("'", value.type_description(), "' cannot be sliced"));
  }
  for (const Value& bound : bounds) {
    if (!bound.is(Value::kNone) && !bound.is_integer()) {
      return Fail("a slice's bounds are no integers");
    }
  }
  const std::u32string characters = is_text ? Characters(value.text()) : std::u32string();
  if (!Charge(characters.size() * 4)) return Value();
  const int64_t size = static_cast<int64_t>(is_text ? characters.size() : value.items().size());
  const int64_t step = bounds[2].is(Value::kNone) ? 1 : bounds[2].integer();
  if (step == 0) return Fail("a slice's step is zero");
  // Python's slice.indices.
  const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
  const auto clip = [&](const Value& bound, int64_t absent) {
    if (bound.is(Value::kNone)) return absent;
    const int64_t at = bound.integer() < 0 ? bound.integer() + size : bound.integer();
    return std::clamp(at, low, high);
  };
  const int64_t start = clip(bounds[0], step > 0 ? low : high);
  const int64_t stop = clip(bounds[1], step > 0 ? high : low);
  std::u32string text;
  std::vector<Value> items;
  const uint64_t stride = step > 0 ? step : uint64_t{0} - static_cast<uint64_t>(step);
  for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
    if (is_text) {
      text += characters[i];
    } else {
      items.push_back(value.items()[i]);
    }
    if (stride > static_cast<uint64_t>(size)) break;
    i += step;
  }
  if (is_text) {
    const Value part = MakeString(FromCharacters(text));
    return value.is_markup() ? part.AsMarkup() : part;
  }
  return value.is(Value::kTuple) ? Value::Tuple(std::move(items)) : MakeList(std::move(items));
}

}  // namespace hydrant::engine::chat
