#include "engine/chat/loop.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace hydrant::engine::chat {
namespace {

// "loop.cycle" or "loop.changed", of one loop at one item.
class LoopMethod : public Object {
 public:
  LoopMethod(std::weak_ptr<Loop> loop, size_t index, bool is_cycle)
      : loop_(std::move(loop)), index_(index), is_cycle_(is_cycle) {}
  std::string_view type_name() const override { return "method"; }
  Value Call(Interpreter& interpreter, const Arguments& arguments) override {
    if (is_cycle_) {
      if (arguments.positional.empty()) return interpreter.Fail("no items for cycling given");
      return arguments.positional[index_ % arguments.positional.size()];
    }
    const std::shared_ptr<Loop> loop = loop_.lock();
    return Value::Bool(loop && loop->Changed(arguments.positional));
  }

 private:
  const std::weak_ptr<Loop> loop_;
  const size_t index_;
  const bool is_cycle_;
};

class Macro : public Object {
 public:
  Macro(const Statement& statement, std::string_view name, std::weak_ptr<Frame> frame)
      : statement_(statement), name_(name), frame_(std::move(frame)) {}
  std::string_view type_name() const override { return "Macro"; }
  std::string Repr(int) const override { return absl::StrCat("<Macro '", name_, "'>"); }
  Value Call(Interpreter& interpreter, const Arguments& arguments) override {
    return interpreter.CallMacro(statement_, name_, frame_.lock(), arguments);
  }
  std::optional<Value> Attribute(std::string_view name) const override {
    if (name == "name") return Value::String(name_);
    if (name == "catch_kwargs") return Value::Bool(statement_.signature.uses_kwargs);
    if (name == "catch_varargs") return Value::Bool(statement_.signature.uses_varargs);
    if (name == "caller") return Value::Bool(statement_.signature.uses_caller);
    if (name != "arguments") return std::nullopt;
    std::vector<Value> names;
    for (const Signature::Parameter& parameter : statement_.signature.parameters) {
      names.push_back(Value::String(parameter.name));
    }
    return Value::Tuple(std::move(names));
  }

 private:
  const Statement& statement_;
  const std::string name_;
  const std::weak_ptr<Frame> frame_;
};

}  // namespace

Value MakeMacro(const Statement& statement, std::string_view name, std::weak_ptr<Frame> frame) {
  return Value::OfObject(std::make_shared<Macro>(statement, name, std::move(frame)));
}

std::string Loop::Repr(int) const {
  return absl::StrCat("<LoopContext ", index + 1, "/", items.size(), ">");
}

Value Loop::Call(Interpreter& interpreter, const Arguments& arguments) {
  if (arguments.positional.size() != 1) return interpreter.Fail("loop(...) takes one argument");
  return interpreter.RenderLoop(statement_, frame_.lock(), arguments.positional[0], depth_ + 1);
}

std::optional<Value> Loop::Attribute(std::string_view name) const {
  const auto number = [](size_t value) { return Value::Int(static_cast<int64_t>(value)); };
  const size_t size = items.size();
  if (name == "index") return number(index + 1);
  if (name == "index0") return number(index);
  if (name == "revindex") return number(size - index);
  if (name == "revindex0") return number(size - index - 1);
  if (name == "first") return Value::Bool(index == 0);
  if (name == "last") return Value::Bool(index + 1 == size);
  if (name == "length") return number(size);
  if (name == "depth") return Value::Int(depth_ + 1);
  if (name == "depth0") return Value::Int(depth_);
  if (name == "previtem") {
    return index > 0 ? items[index - 1] : Value::Undefined("there is no previous item");
  }
  if (name == "nextitem") {
    return index + 1 < size ? items[index + 1] : Value::Undefined("there is no next item");
  }
  if (name == "cycle" || name == "changed") {
    const auto self = std::const_pointer_cast<Loop>(shared_from_this());
    return Value::OfObject(std::make_shared<LoopMethod>(self, index, name == "cycle"));
  }
  return std::nullopt;
}

bool Loop::Changed(const std::vector<Value>& values) {
  const bool same = last_values_ && last_values_->size() == values.size() &&
                    std::equal(values.begin(), values.end(), last_values_->begin(), Equal);
  last_values_ = values;
  return !same;
}

}  // namespace hydrant::engine::chat
