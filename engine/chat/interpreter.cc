#include "engine/chat/interpreter.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/chat/loop.h"
#include "engine/tokenizer/utf8.h"

namespace hydrant::engine::chat {
namespace {

constexpr int64_t kMaxSteps = 5'000'000;
constexpr int64_t kMaxBytes = 64 << 20;
constexpr int64_t kMaxBytesPerInputByte = 64;

}  // namespace

class Interpreter::Level {
 public:
  explicit Level(Interpreter& interpreter) : interpreter_(interpreter) {
    if (++interpreter_.depth_ > kMaxDepth) interpreter_.Fail("the template recurses too deeply");
  }
  ~Level() { --interpreter_.depth_; }

 private:
  Interpreter& interpreter_;
};

void Frame::Set(std::string_view name, Value value) {
  for (auto& [key, held] : names) {
    if (key == name) {
      held = std::move(value);
      return;
    }
  }
  names.emplace_back(name, std::move(value));
}

Interpreter::Interpreter(const Program& program, const Dict& variables, size_t input_bytes)
    : program_(program),
      variables_(variables),
      frame_(std::make_shared<Frame>()),
      steps_left_(kMaxSteps),
      bytes_left_(kMaxBytes + kMaxBytesPerInputByte * static_cast<int64_t>(input_bytes)) {}

Interpreter::~Interpreter() {
  for (const std::shared_ptr<Object>& object : adopted_) object->Forget();
}

absl::StatusOr<std::string> Interpreter::Run() {
  std::string out;
  out_ = &out;
  if (RunBody(program_.body) != Flow::kNext) Fail("break or continue outside of a loop");
  if (!ok()) return status_;
  return out;
}

Value Interpreter::Fail(std::string_view what, absl::StatusCode code) {
  if (ok()) status_ = ErrorAt(code, position_, what);
  return Value();
}

bool Interpreter::Charge(size_t bytes) {
  if (!ok()) return false;
  bytes_left_ -= static_cast<int64_t>(std::min<size_t>(bytes, INT64_MAX / 2));
  if (bytes_left_ < 0) Fail("the template makes too much text of this conversation");
  return ok();
}

bool Interpreter::Step() {
  if (--steps_left_ < 0) Fail(absl::StrCat("the template takes more than ", kMaxSteps, " steps"));
  return ok();
}

Value Interpreter::MakeString(std::string text) {
  if (!Charge(text.size())) return Value();
  return Value::String(std::move(text));
}

Value Interpreter::MakeList(std::vector<Value> items) {
  if (!Charge(items.size() * sizeof(Value))) return Value();
  Value list = Value::List(std::move(items));
  if (list.depth() > kMaxDepth) return Fail("lists are nested too deeply");
  return list;
}

Value Interpreter::Adopt(std::shared_ptr<Object> object) {
  adopted_.push_back(object);
  return Value::OfObject(std::move(object));
}

std::shared_ptr<Frame> Interpreter::PushFrame(std::shared_ptr<Frame> parent) {
  auto frame = std::make_shared<Frame>();
  frame->parent = std::move(parent);
  return std::exchange(frame_, std::move(frame));
}

std::weak_ptr<Frame> Interpreter::KeepFrame() {
  if (kept_.empty() || kept_.back() != frame_) kept_.push_back(frame_);
  return frame_;
}

void Interpreter::Emit(std::string_view text) {
  if (Charge(text.size())) *out_ += text;
}

std::string Interpreter::Capture(const Body& body) {
  std::string text;
  std::string* const outer = std::exchange(out_, &text);
  const std::shared_ptr<Frame> frame = PushFrame(frame_);
  if (RunBody(body) != Flow::kNext) Fail("break or continue outside of a loop");
  frame_ = frame;
  out_ = outer;
  return text;
}

Interpreter::Flow Interpreter::RunBody(const Body& body) {
  for (const std::unique_ptr<Statement>& statement : body) {
    if (!ok()) break;
    const Flow flow = RunStatement(*statement);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::RunStatement(const Statement& statement) {
  const Level level(*this);
  position_ = statement.position;
  if (!Step()) return Flow::kNext;
  switch (statement.kind) {
    case Statement::kText:
      Emit(statement.text);
      break;
    case Statement::kOutput:
      for (const ExpressionPtr& expression : statement.expressions) {
        const Value value = Evaluate(*expression);
        if (ok()) Emit(value.Str());
      }
      break;
    case Statement::kIf:
      return RunIf(statement);
    case Statement::kFor:
      return RunFor(statement, Evaluate(*statement.expressions[0]), /*depth=*/0);
    case Statement::kSet:
      Assign(*statement.target, Evaluate(*statement.expressions[0]));
      break;
    case Statement::kSetBlock: {
      Value text = MakeString(Capture(statement.bodies[0]));
      if (statement.expressions[0]) text = EvaluateFilters(*statement.expressions[0], text);
      Assign(*statement.target, std::move(text));
      break;
    }
    case Statement::kMacro:
      frame_->Set(statement.text, MakeMacro(statement, statement.text, KeepFrame()));
      break;
    case Statement::kCallBlock:
      RunCallBlock(statement);
      break;
    case Statement::kFilterBlock:
      Emit(EvaluateFilters(*statement.expressions[0], MakeString(Capture(statement.bodies[0])))
               .Str());
      break;
    case Statement::kWith:
      return RunWith(statement);
    case Statement::kScope:
      Emit(Capture(statement.bodies[0]));
      break;
    case Statement::kBreak:
      return Flow::kBreak;
    case Statement::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::RunIf(const Statement& statement) {
  for (size_t i = 0; i < statement.bodies.size(); ++i) {
    const ExpressionPtr& condition = statement.expressions[i];
    if (condition && !Evaluate(*condition).Truthy()) {
      if (!ok()) break;
      continue;
    }
    return ok() ? RunBody(statement.bodies[i]) : Flow::kNext;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::RunFor(const Statement& statement, const Value& value, int depth) {
  std::vector<Value> items = Iterate(value);
  const std::shared_ptr<Frame> outer = frame_;
  if (statement.expressions[1]) {
    std::vector<Value> chosen;
    for (Value& item : items) {
      if (!Step()) break;
      PushFrame(outer);
      Assign(*statement.target, item);
      if (Evaluate(*statement.expressions[1]).Truthy()) chosen.push_back(std::move(item));
    }
    items = std::move(chosen);
  }
  frame_ = outer;
  if (!ok()) return Flow::kNext;
  const std::shared_ptr<Loop> loop =
      std::make_shared<Loop>(statement, std::move(items), depth,
                             statement.recursive ? KeepFrame() : std::weak_ptr<Frame>());
  // As in Jinja's generated code, an iteration that is left early does not count for "else".
  bool iterated = false;
  for (; loop->index < loop->items.size() && Step(); ++loop->index) {
    PushFrame(outer);
    frame_->Set("loop", Value::OfObject(loop));
    Assign(*statement.target, loop->items[loop->index]);
    const Flow flow = RunBody(statement.bodies[0]);
    if (flow == Flow::kBreak) break;
    if (flow == Flow::kNext) iterated = true;
  }
  Flow flow = Flow::kNext;  // of the loop around this one
  if (!iterated && ok()) {
    PushFrame(outer);
    flow = RunBody(statement.bodies[1]);
  }
  frame_ = outer;
  return flow;
}

Value Interpreter::RenderLoop(const Statement& loop, std::shared_ptr<Frame> frame,
                              const Value& items, int depth) {
  const Level level(*this);
  if (!ok()) return Value();
  std::string text;
  std::string* const outer_out = std::exchange(out_, &text);
  const std::shared_ptr<Frame> outer = std::exchange(frame_, std::move(frame));
  if (RunFor(loop, items, depth) != Flow::kNext) Fail("break or continue outside of a loop");
  frame_ = outer;
  out_ = outer_out;
  return MakeString(std::move(text));
}

void Interpreter::RunCallBlock(const Statement& statement) {
  const Expression& call = *statement.expressions[0];
  const Value callee = Evaluate(*call.operands[0]);
  Arguments arguments = EvaluateArguments(call.arguments);
  arguments.named.emplace_back("caller", MakeMacro(statement, "caller", KeepFrame()));
  position_ = call.position;
  const Value result = Call(callee, arguments);
  if (ok()) Emit(result.Str());
}

Interpreter::Flow Interpreter::RunWith(const Statement& statement) {
  const std::shared_ptr<Frame> outer = frame_;
  std::vector<Value> values;
  for (const ExpressionPtr& expression : statement.expressions) {
    values.push_back(Evaluate(*expression));
  }
  PushFrame(outer);
  for (size_t i = 0; i < values.size(); ++i) Assign(*statement.targets[i], std::move(values[i]));
  const Flow flow = RunBody(statement.bodies[0]);
  frame_ = outer;
  return flow;
}

Value Interpreter::CallMacro(const Statement& macro, std::string_view name,
                             std::shared_ptr<Frame> defined_in, const Arguments& arguments) {
  const Level level(*this);
  if (!Step()) return Value();
  const Signature& signature = macro.signature;
  const std::shared_ptr<Frame> outer = PushFrame(std::move(defined_in));
  const size_t count = signature.parameters.size();
  const auto title = [&] { return absl::StrCat("macro '", std::string(name), "'"); };
  for (size_t i = 0; i < count; ++i) {
    const Signature::Parameter& parameter = signature.parameters[i];
    const Value* given = arguments.Find(i, parameter.name);
    if (given) {
      frame_->Set(parameter.name, *given);
    } else if (parameter.default_value) {
      frame_->Set(parameter.name, Evaluate(*parameter.default_value));
    } else {
      frame_->Set(parameter.name, Value::Undefined(absl::StrCat("parameter '", parameter.name,
                                                                "' was not provided")));
    }
  }
  std::vector<Value> more;
  for (size_t i = count; i < arguments.positional.size(); ++i) {
    more.push_back(arguments.positional[i]);
  }
  if (!more.empty() && !signature.uses_varargs) {
    Fail(absl::StrCat(title(), " takes not more than ", count, " argument(s)"));
  }
  if (signature.uses_varargs) frame_->Set("varargs", Value::Tuple(std::move(more)));
  Dict others;
  for (const auto& [key, value] : arguments.named) {
    const auto parameter =
        std::find_if(signature.parameters.begin(), signature.parameters.end(),
                     [&key = key](const Signature::Parameter& p) { return p.name == key; });
    if (parameter != signature.parameters.end()) {
      if (static_cast<size_t>(parameter - signature.parameters.begin()) <
          arguments.positional.size()) {
        Fail(absl::StrCat(title(), " got two values for the argument '", key, "'"));
      }
    } else if (key == "caller" && signature.uses_caller) {
      frame_->Set("caller", value);
    } else if (signature.uses_kwargs) {
      others.Set(Value::String(key), value);
    } else {
      Fail(absl::StrCat(title(), " takes no keyword argument '", key, "'"));
    }
  }
  if (signature.uses_kwargs) frame_->Set("kwargs", Value::OfDict(std::move(others)));
  if (signature.uses_caller && !arguments.Find(SIZE_MAX, "caller")) {
    frame_->Set("caller", Value::Undefined("No caller defined"));
  }
  std::string text;
  std::string* const outer_out = std::exchange(out_, &text);
  if (RunBody(macro.bodies[0]) != Flow::kNext) Fail("break or continue outside of a loop");
  out_ = outer_out;
  frame_ = outer;
  return MakeString(std::move(text));
}

void Interpreter::Assign(const Expression& target, Value value) {
  if (!ok()) return;
  if (target.kind == Expression::kName) return frame_->Set(target.name, std::move(value));
  position_ = target.position;
  if (target.kind == Expression::kNamespaceAttribute) {
    const Value object = Lookup(target.name);
    if (target.attribute.starts_with('_')) {
      Fail("attributes of a namespace cannot begin with an underscore");
    } else if (!object.is(Value::kObject) ||
               !object.object().SetAttribute(target.attribute, std::move(value))) {
      Fail(absl::StrCat("cannot set an attribute of '", target.name, "': it is no namespace"));
    }
    return;
  }
  const std::vector<Value> items = Iterate(value);
  if (!ok()) return;
  if (items.size() != target.operands.size()) {
    Fail(absl::StrCat("cannot take ", items.size(), " values apart into ", target.operands.size()));
    return;
  }
  for (size_t i = 0; i < items.size(); ++i) Assign(*target.operands[i], items[i]);
}

std::vector<Value> Interpreter::Iterate(const Value& value) {
  std::vector<Value> items;
  if (!ok()) return items;
  switch (value.kind()) {
    case Value::kUndefined:
      return items;
    case Value::kList:
    case Value::kTuple:
    case Value::kView:
    case Value::kGenerator:
      Charge(value.items().size() * sizeof(Value));
      return ok() ? value.TakeItems() : items;
    case Value::kDict:
      for (const auto& [key, held] : value.dict().entries()) items.push_back(key);
      return items;
    case Value::kString: {
      std::string_view rest = value.text();
      Charge(rest.size() * 4 * sizeof(Value));
      while (ok() && !rest.empty()) {
        const size_t length = Utf8Length(rest[0]);
        items.push_back(Value::String(std::string(rest.substr(0, length))));
        rest.remove_prefix(length);
      }
      return items;
    }
    default:
      Fail(absl::StrCat("'", value.type_description(), "' is not iterable"));
      return items;
  }
}

}  // namespace hydrant::engine::chat
