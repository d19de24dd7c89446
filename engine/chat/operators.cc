// Arithmetic, comparisons and containment, as Python has them.

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/chat/interpreter.h"

namespace hydrant::engine::chat {
namespace {

constexpr std::string_view kTooLarge = "an integer of more than 64 bits";

}  // namespace

Value Interpreter::Unary(char op, const Value& operand) {
  if (!ok()) return Value();
  if (operand.is(Value::kUndefined)) return Fail(operand.why());
  if (!operand.is_number()) {
    return Fail(absl::StrCat("'", std::string(1, op), "' of a ", std::string(operand.type_name())));
  }
  if (operand.is(Value::kFloat)) {
    return Value::Float(op == '-' ? -operand.number() : operand.number());
  }
  if (op == '+') return Value::Int(operand.integer());
  return IntBinary("-", 0, operand.integer());
}

Value Interpreter::FloatBinary(std::string_view op, double left, double right) {
  if (op == "+") return Value::Float(left + right);
  if (op == "-") return Value::Float(left - right);
  if (op == "*") return Value::Float(left * right);
  if (op == "**") {
    if (left == 0 && right < 0) return Fail("zero to a negative power");
    const double power = std::pow(left, right);
    if (std::isnan(power) && !std::isnan(left) && !std::isnan(right)) {
      return Fail("a power that is not real");
    }
    if (std::isinf(power) && !std::isinf(left) && !std::isinf(right)) {
      return Fail("a power that is too large");
    }
    return Value::Float(power);
  }
  if (right == 0) return Fail("division by zero");
  if (op == "/") return Value::Float(left / right);
  double modulo = std::fmod(left, right);
  double quotient = (left - modulo) / right;
  if (modulo != 0 && (right < 0) != (modulo < 0)) {
    modulo += right;
    quotient -= 1;
  }
  if (op == "%") return Value::Float(modulo == 0 ? std::copysign(0.0, right) : modulo);
  double floor = quotient == 0 ? std::copysign(0.0, left / right) : std::floor(quotient);
  if (quotient - floor > 0.5) floor += 1;
  return Value::Float(floor);
}

Value Interpreter::IntBinary(std::string_view op, int64_t left, int64_t right) {
  int64_t result = 0;
  bool overflow = false;
  if (op == "+") {
    overflow = __builtin_add_overflow(left, right, &result);
  } else if (op == "-") {
    overflow = __builtin_sub_overflow(left, right, &result);
  } else if (op == "*") {
    overflow = __builtin_mul_overflow(left, right, &result);
  } else if (op == "/") {
    return FloatBinary(op, static_cast<double>(left), static_cast<double>(right));
  } else if (op == "**") {
    if (right < 0) return FloatBinary(op, static_cast<double>(left), static_cast<double>(right));
    result = 1;
    for (int64_t base = left; right > 0 && !overflow; right >>= 1) {
      if (right & 1) overflow = __builtin_mul_overflow(result, base, &result);
      if (right > 1) overflow = overflow || __builtin_mul_overflow(base, base, &base);
    }
  } else {
    if (right == 0) return Fail("division by zero");
    if (right == -1) return op == "%" ? Value::Int(0) : IntBinary("-", 0, left);
    result = left / right;
    const int64_t rest = left % right;
    const bool round_down = rest != 0 && (rest < 0) != (right < 0);
    if (op == "%") {
      result = round_down ? rest + right : rest;
    } else if (round_down) {
      --result;
    }
  }
  return overflow ? Fail(kTooLarge) : Value::Int(result);
}

Value Interpreter::Binary(std::string_view op, const Value& left, const Value& right) {
  if (!ok()) return Value();
  for (const Value* operand : {&left, &right}) {
    const bool formats = operand == &right && op == "%" && left.is(Value::kString);
    if (operand->is(Value::kUndefined) && !formats) return Fail(operand->why());
  }
  if (left.is_number() && right.is_number()) {
    if (left.is_integer() && right.is_integer()) {
      return IntBinary(op, left.integer(), right.integer());
    }
    return FloatBinary(op, left.number(), right.number());
  }
  if (op == "%" && left.is_markup()) return FormatMarkup(*this, left, right);
  if (op == "%" && left.is(Value::kString)) return FormatPercent(*this, left.text(), right);
  if (op == "+" && left.kind() == right.kind()) {
    if (left.is_markup() || right.is_markup()) return AddMarkup(*this, left, right);
    if (left.is(Value::kString)) {
      if (!Charge(left.text().size() + right.text().size())) return Value();
      return Value::String(left.text() + right.text());
    }
    if (left.is(Value::kList) || left.is(Value::kTuple)) {
      std::vector<Value> items = left.items();
      items.insert(items.end(), right.items().begin(), right.items().end());
      return left.is(Value::kTuple) ? Value::Tuple(std::move(items)) : MakeList(std::move(items));
    }
  }
  if (op == "*" && (left.is_integer() || right.is_integer())) {
    const Value& repeated = left.is_integer() ? right : left;
    const int64_t times = std::max<int64_t>((left.is_integer() ? left : right).integer(), 0);
    const bool is_text = repeated.is(Value::kString);
    if (is_text || repeated.is(Value::kList) || repeated.is(Value::kTuple)) {
      const size_t unit =
          is_text ? repeated.text().size() : repeated.items().size() * sizeof(Value);
      size_t bytes;
      if (__builtin_mul_overflow(unit, static_cast<size_t>(times), &bytes)) bytes = SIZE_MAX;
      if (!Charge(bytes)) return Value();
      std::string text;
      std::vector<Value> items;
      for (int64_t i = 0; i < times && unit > 0; ++i) {
        if (is_text) {
          text += repeated.text();
        } else {
          items.insert(items.end(), repeated.items().begin(), repeated.items().end());
        }
      }
      if (is_text) {
        const Value made = Value::String(std::move(text));
        return repeated.is_markup() ? made.AsMarkup() : made;
      }
      return repeated.is(Value::kTuple) ? Value::Tuple(std::move(items))
                                        : Value::List(std::move(items));
    }
  }
  return Fail(absl::StrCat("'", std::string(op), "' between ", std::string(left.type_name()),
                           " and ", std::string(right.type_name())));
}

bool Interpreter::Contains(const Value& container, const Value& item) {
  if (!ok()) return false;
  switch (container.kind()) {
    case Value::kString:
      if (item.is(Value::kString)) {
        Charge(container.text().size() / 16);
        return container.text().find(item.text()) != std::string::npos;
      }
      Fail(item.is(Value::kUndefined) ? item.why() : "only a text can be in a text");
      return false;
    case Value::kDict:
      return container.dict().Find(item) != nullptr;
    case Value::kUndefined:
      return false;
    case Value::kList:
    case Value::kTuple:
    case Value::kView:
    case Value::kGenerator: {
      const std::vector<Value> items = container.TakeItems();
      steps_left_ -= static_cast<int64_t>(items.size() / 4);
      return std::any_of(items.begin(), items.end(),
                         [&](const Value& held) { return Equal(held, item); });
    }
    default:
      Fail(absl::StrCat("'in' a ", std::string(container.type_name())));
      return false;
  }
}

bool Interpreter::Compare(std::string_view op, const Value& left, const Value& right) {
  if (!ok()) return false;
  if (op == "==") return Equal(left, right);
  if (op == "!=") return !Equal(left, right);
  if (op == "in") return Contains(right, left);
  if (op == "not in") return !Contains(right, left);
  for (const Value* operand : {&left, &right}) {
    if (operand->is(Value::kUndefined)) {
      Fail(operand->why());
      return false;
    }
  }
  const std::optional<int> order = chat::Compare(left, right);
  if (!order) {
    Fail(absl::StrCat("'", std::string(op), "' between ", std::string(left.type_name()), " and ",
                      std::string(right.type_name())));
    return false;
  }
  if (op == "<") return *order < 0;
  if (op == "<=") return *order <= 0;
  if (op == ">") return *order > 0;
  return *order >= 0;
}

}  // namespace hydrant::engine::chat
