// Runs a parsed template as Jinja does in the sandbox that Hugging Face renders chat templates in,
// within bounds on steps, on the bytes of all values made, and on the depth of calls.
//
// The first error stays: what is called afterwards returns at once, and its results do not matter.

#ifndef HYDRANT_ENGINE_CHAT_INTERPRETER_H_
#define HYDRANT_ENGINE_CHAT_INTERPRETER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/chat/program.h"
#include "engine/chat/value.h"

namespace hydrant::engine::chat {

// Of evaluation within evaluation, and of values within values; the stack holds several times it.
inline constexpr int kMaxDepth = 600;

// The names of one scope.
struct Frame {
  std::shared_ptr<Frame> parent;
  std::vector<std::pair<std::string_view, Value>> names;  // the keys live in the program

  void Set(std::string_view name, Value value);
};

class Interpreter {
 public:
  // `variables` is what the template is given. `input_bytes`, their size, widens the bounds.
  // Neither `program` nor `variables` may go before the interpreter.
  Interpreter(const Program& program, const Dict& variables, size_t input_bytes);
  ~Interpreter();

  absl::StatusOr<std::string> Run();

  // For values that act: filters, tests, functions, methods.
  bool ok() const { return status_.ok(); }
  // Always returns an undefined value, so that a rule can end with it.
  Value Fail(std::string_view what, absl::StatusCode code = absl::StatusCode::kInvalidArgument);
  // False, and an error, when the run has used up its bytes.
  bool Charge(size_t bytes);
  bool Step();
  Value MakeString(std::string text);
  Value MakeList(std::vector<Value> items);
  Value GetAttribute(const Value& value, std::string_view name);
  Value GetItem(const Value& value, const Value& key);
  Value Call(const Value& callee, const Arguments& arguments);
  Value ApplyFilter(std::string_view name, const Value& value, const Arguments& arguments);
  bool ApplyTest(std::string_view name, const Value& value, const Arguments& arguments);
  Value Binary(std::string_view op, const Value& left, const Value& right);
  bool Compare(std::string_view op, const Value& left, const Value& right);
  bool Contains(const Value& container, const Value& item);
  // The items that a loop over `value` sees.
  std::vector<Value> Iterate(const Value& value);

  // For objects that can come to hold themselves: lets go of what they hold when the run ends.
  Value Adopt(std::shared_ptr<Object> object);

  // For macros and recursive loops: what the body writes.
  Value CallMacro(const Statement& macro, std::string_view name, std::shared_ptr<Frame> defined_in,
                  const Arguments& arguments);
  Value RenderLoop(const Statement& loop, std::shared_ptr<Frame> frame, const Value& items,
                   int depth);

 private:
  enum class Flow { kNext, kBreak, kContinue };
  // Counts one level of recursion for as long as it lives.
  class Level;

  Flow RunBody(const Body& body);
  Flow RunStatement(const Statement& statement);
  Flow RunIf(const Statement& statement);
  Flow RunFor(const Statement& statement, const Value& items, int depth);
  void RunCallBlock(const Statement& statement);
  Flow RunWith(const Statement& statement);
  std::string Capture(const Body& body);  // in a scope of its own
  void Assign(const Expression& target, Value value);
  void Emit(std::string_view text);

  Value Evaluate(const Expression& expression);
  Value EvaluateKind(const Expression& expression);
  Value EvaluateDict(const Expression& expression);
  Value EvaluateCompare(const Expression& expression);
  Value EvaluateFilters(const Expression& expression, const Value& innermost);
  Value Slice(const Value& value, const Expression& slice);
  Arguments EvaluateArguments(const CallArguments& arguments);
  Value Lookup(std::string_view name) const;
  Value Unary(char op, const Value& operand);
  Value FloatBinary(std::string_view op, double left, double right);
  Value IntBinary(std::string_view op, int64_t left, int64_t right);

  std::shared_ptr<Frame> PushFrame(std::shared_ptr<Frame> parent);
  // Frames that a macro looks into live as long as the run: the macro has no share in them, since
  // they may hold it.
  std::weak_ptr<Frame> KeepFrame();

  const Program& program_;
  const Dict& variables_;
  std::shared_ptr<Frame> frame_;
  std::vector<std::shared_ptr<Frame>> kept_;
  std::string* out_ = nullptr;
  Position position_;  // of what is being evaluated
  int depth_ = 0;
  int64_t steps_left_;
  int64_t bytes_left_;
  absl::Status status_;
  std::vector<std::shared_ptr<Object>> adopted_;
};

// What the parts of the language that are functions are called by.
using FilterFunction = Value (*)(Interpreter&, const Value&, const Arguments&);
using TestFunction = bool (*)(Interpreter&, const Value&, const Arguments&);
using GlobalFunction = Value (*)(Interpreter&, const Arguments&);

// Null where there is none of that name.
FilterFunction FindFilter(std::string_view name);
FilterFunction FindSequenceFilter(std::string_view name);
TestFunction FindTest(std::string_view name);
GlobalFunction FindGlobal(std::string_view name);
Value MakeFunction(std::string_view name, GlobalFunction function);

// Methods of texts and dicts. `Method` returns undefined where the type has none of that name.
bool HasMethod(const Value& value, std::string_view name);
Value BindMethod(const Value& value, std::string_view name);
Value CallStringMethod(Interpreter& interpreter, const std::string& self, std::string_view name,
                       const Arguments& arguments);

// As CallStringMethod, of a text that may be markup.
Value CallTextMethod(Interpreter& interpreter, const Value& self, std::string_view name,
                     const Arguments& arguments);

// `value` as markup: its text escaped, unless it is markup already.
Value Escape(Interpreter& interpreter, const Value& value);
// "left + right" of texts of which one is markup, and "markup % values".
Value AddMarkup(Interpreter& interpreter, const Value& left, const Value& right);
Value FormatMarkup(Interpreter& interpreter, const Value& markup, const Value& values);

// Python's "text % values" and "text.format(...)".
Value FormatPercent(Interpreter& interpreter, std::string_view format, const Value& values);
Value FormatBraces(Interpreter& interpreter, std::string_view format, const Arguments& arguments);

// Python's json.dumps. `indent`: what a level is indented by; null: all on one line.
struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  const std::string* indent = nullptr;
  std::string item_separator = ", ", key_separator = ": ";
};
Value ToJson(Interpreter& interpreter, const Value& value, const JsonStyle& style);

}  // namespace hydrant::engine::chat

#endif  // HYDRANT_ENGINE_CHAT_INTERPRETER_H_
