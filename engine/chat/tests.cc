// Jinja's tests (tests.py): what stands after "is".

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/chat/interpreter.h"

namespace hydrant::engine::chat {
namespace {

bool Fails(Interpreter& interpreter, std::string_view what) {
  interpreter.Fail(what);
  return false;
}

// The remainder by `divisor`; -1 and an error where there is none.
int64_t Remainder(Interpreter& interpreter, const Value& value, const Value& divisor) {
  const Value rest = interpreter.Binary("%", value, divisor);
  if (!interpreter.ok() || !rest.is_number()) return -1;
  return rest.number() == 0 ? 0 : rest.number() == 1 ? 1 : 2;
}

bool IsOdd(Interpreter& i, const Value& v, const Arguments&) {
  return Remainder(i, v, Value::Int(2)) == 1;
}
bool IsEven(Interpreter& i, const Value& v, const Arguments&) {
  return Remainder(i, v, Value::Int(2)) == 0;
}
bool IsDivisibleBy(Interpreter& i, const Value& v, const Arguments& arguments) {
  const Value* divisor = arguments.Find(0, "num");
  return divisor ? Remainder(i, v, *divisor) == 0 : Fails(i, "divisibleby needs a number");
}
bool IsDefined(Interpreter&, const Value& v, const Arguments&) { return !v.is(Value::kUndefined); }
bool IsUndefined(Interpreter&, const Value& v, const Arguments&) { return v.is(Value::kUndefined); }
bool IsNone(Interpreter&, const Value& v, const Arguments&) { return v.is(Value::kNone); }
bool IsBoolean(Interpreter&, const Value& v, const Arguments&) { return v.is(Value::kBool); }
bool IsTrue(Interpreter&, const Value& v, const Arguments&) {
  return v.is(Value::kBool) && v.Truthy();
}
bool IsFalse(Interpreter&, const Value& v, const Arguments&) {
  return v.is(Value::kBool) && !v.Truthy();
}
bool IsInteger(Interpreter&, const Value& v, const Arguments&) { return v.is(Value::kInt); }
bool IsFloat(Interpreter&, const Value& v, const Arguments&) { return v.is(Value::kFloat); }
bool IsNumber(Interpreter&, const Value& v, const Arguments&) { return v.is_number(); }
bool IsString(Interpreter&, const Value& v, const Arguments&) { return v.is(Value::kString); }
bool IsMapping(Interpreter&, const Value& v, const Arguments&) { return v.is(Value::kDict); }
bool IsLower(Interpreter& i, const Value& v, const Arguments&) {
  return CallStringMethod(i, v.Str(), "islower", {}).Truthy();
}
bool IsUpper(Interpreter& i, const Value& v, const Arguments&) {
  return CallStringMethod(i, v.Str(), "isupper", {}).Truthy();
}
bool IsSequence(Interpreter&, const Value& v, const Arguments&) {
  return v.is(Value::kList) || v.is(Value::kTuple) || v.is(Value::kDict) || v.is(Value::kString) ||
         v.is(Value::kUndefined);
}
bool IsIterable(Interpreter& i, const Value& v, const Arguments& a) {
  return IsSequence(i, v, a) || v.is(Value::kView) || v.is(Value::kGenerator);
}
bool IsCallable(Interpreter&, const Value& v, const Arguments&) {
  return v.is(Value::kUndefined) || (v.is(Value::kObject) && v.object().callable());
}
bool IsEscaped(Interpreter&, const Value& v, const Arguments&) { return v.is_markup(); }
bool IsSameAs(Interpreter& i, const Value& v, const Arguments& arguments) {
  const Value* other = arguments.Find(0, "other");
  return other ? v.SameAs(*other) : Fails(i, "sameas needs a value");
}
bool IsIn(Interpreter& i, const Value& v, const Arguments& arguments) {
  const Value* container = arguments.Find(0, "seq");
  return container ? i.Contains(*container, v) : Fails(i, "'in' needs a value");
}
bool IsFilter(Interpreter&, const Value& v, const Arguments&) {
  return FindFilter(v.Str()) || FindSequenceFilter(v.Str());
}
bool IsTest(Interpreter&, const Value& v, const Arguments&) { return FindTest(v.Str()) != nullptr; }

template <char kFirst, char kSecond = '\0'>
bool Compares(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  constexpr char kOperator[] = {kFirst, kSecond, '\0'};
  if (arguments.positional.empty()) return Fails(interpreter, "a comparison needs a value");
  return interpreter.Compare(kOperator, value, arguments.positional[0]);
}

}  // namespace

TestFunction FindTest(std::string_view name) {
  static constexpr std::pair<std::string_view, TestFunction> kTests[] = {
      {"odd", IsOdd},
      {"even", IsEven},
      {"divisibleby", IsDivisibleBy},
      {"defined", IsDefined},
      {"undefined", IsUndefined},
      {"filter", IsFilter},
      {"test", IsTest},
      {"none", IsNone},
      {"boolean", IsBoolean},
      {"true", IsTrue},
      {"false", IsFalse},
      {"integer", IsInteger},
      {"float", IsFloat},
      {"number", IsNumber},
      {"string", IsString},
      {"mapping", IsMapping},
      {"lower", IsLower},
      {"upper", IsUpper},
      {"sequence", IsSequence},
      {"iterable", IsIterable},
      {"callable", IsCallable},
      {"escaped", IsEscaped},
      {"sameas", IsSameAs},
      {"in", IsIn},
      {"==", Compares<'=', '='>},
      {"eq", Compares<'=', '='>},
      {"equalto", Compares<'=', '='>},
      {"!=", Compares<'!', '='>},
      {"ne", Compares<'!', '='>},
      {">", Compares<'>'>},
      {"gt", Compares<'>'>},
      {"greaterthan", Compares<'>'>},
      {">=", Compares<'>', '='>},
      {"ge", Compares<'>', '='>},
      {"<", Compares<'<'>},
      {"lt", Compares<'<'>},
      {"lessthan", Compares<'<'>},
      {"<=", Compares<'<', '='>},
      {"le", Compares<'<', '='>},
  };
  for (const auto& [known, test] : kTests) {
    if (known == name) return test;
  }
  return nullptr;
}

}  // namespace hydrant::engine::chat
