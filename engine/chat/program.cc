#include "engine/chat/program.h"

#include <algorithm>

#include "engine/tokenizer/utf8.h"

namespace hydrant::engine::chat {
namespace {

struct Scope {
  const Conversation& conversation;
  size_t index = 0;  // of the loop's message
};

// What Python's str.strip takes away.
bool IsPythonSpace(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

std::string_view Trim(std::string_view text) {
  size_t begin = text.size();
  size_t end = 0;
  for (size_t at = 0; at < text.size();) {
    const Utf8Sequence next = ReadUtf8(text.substr(at));
    const bool is_space = next.kind == Utf8Sequence::kCharacter && IsPythonSpace(next.character);
    if (!is_space) begin = std::min(begin, at);
    at += next.length;
    if (!is_space) end = at;
  }
  return begin < end ? text.substr(begin, end - begin) : std::string_view();
}

std::string_view Value(const Text& text, const Scope& scope) {
  if (text.kind == Text::kLiteral) return text.trim ? Trim(text.literal) : text.literal;
  const std::vector<Message>& messages = scope.conversation.messages;
  const Message& message = text.of_first_message ? messages.front() : messages[scope.index];
  const std::string_view value = text.kind == Text::kRole ? message.role : message.content;
  return text.trim ? Trim(value) : value;
}

bool Holds(const Condition& condition, const Scope& scope) {
  const auto holds = [&](const Condition& operand) { return Holds(operand, scope); };
  switch (condition.kind) {
    case Condition::kConstant:
      return condition.constant;
    case Condition::kAddGenerationPrompt:
      return scope.conversation.add_generation_prompt;
    case Condition::kLoopFirst:
      return scope.index == 0;
    case Condition::kLoopLast:
      return scope.index + 1 == scope.conversation.messages.size();
    case Condition::kEqual:
      return Value(condition.compared[0], scope) == Value(condition.compared[1], scope);
    case Condition::kNot:
      return !holds(condition.operands[0]);
    case Condition::kAnd:
      return std::all_of(condition.operands.begin(), condition.operands.end(), holds);
    case Condition::kOr:
      return std::any_of(condition.operands.begin(), condition.operands.end(), holds);
  }
  return false;
}

void RunNodes(const std::vector<Node>& nodes, Scope& scope, std::string& out) {
  for (const Node& node : nodes) {
    switch (node.kind) {
      case Node::kOutput:
        for (const Text& text : node.output) out += Value(text, scope);
        break;
      case Node::kIf: {
        const auto taken = std::find_if(
            node.branches.begin(), node.branches.end(),
            [&](const Node::Branch& branch) { return Holds(branch.condition, scope); });
        if (taken != node.branches.end()) RunNodes(taken->body, scope, out);
        break;
      }
      case Node::kForEachMessage:
        for (scope.index = 0; scope.index < scope.conversation.messages.size(); ++scope.index) {
          RunNodes(node.body, scope, out);
        }
        break;
    }
  }
}

}  // namespace

std::string Program::Run(const Conversation& conversation) const {
  std::string out;
  Scope scope{conversation};
  RunNodes(nodes, scope, out);
  return out;
}

}  // namespace hydrant::engine::chat
