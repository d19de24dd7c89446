// The objects that stand for parts of a template: loops and macros.

#ifndef HYDRANT_ENGINE_CHAT_LOOP_H_
#define HYDRANT_ENGINE_CHAT_LOOP_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/chat/interpreter.h"

namespace hydrant::engine::chat {

// The variable "loop". Called, in a recursive loop, it runs the loop over other items.
class Loop : public Object, public std::enable_shared_from_this<Loop> {
 public:
  // `frame`: what the loop stands in; only recursive loops need it.
  Loop(const Statement& statement, std::vector<Value> items, int depth, std::weak_ptr<Frame> frame)
      : items(std::move(items)), statement_(statement), depth_(depth), frame_(std::move(frame)) {}

  std::string_view type_name() const override { return "LoopContext"; }
  bool callable() const override { return statement_.recursive; }
  std::string Repr(int depth) const override;
  Value Call(Interpreter& interpreter, const Arguments& arguments) override;
  std::optional<Value> Attribute(std::string_view name) const override;

  const std::vector<Value> items;
  size_t index = 0;  // of the item in work

  // "loop.changed(...)".
  bool Changed(const std::vector<Value>& values);

 private:
  const Statement& statement_;
  const int depth_;
  const std::weak_ptr<Frame> frame_;
  std::optional<std::vector<Value>> last_values_;
};

Value MakeMacro(const Statement& statement, std::string_view name, std::weak_ptr<Frame> frame);

}  // namespace hydrant::engine::chat

#endif  // HYDRANT_ENGINE_CHAT_LOOP_H_
