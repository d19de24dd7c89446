// What a chat template does, as far as it is built from ChatML's parts: texts, the role and the
// content of messages, a loop over the messages, and conditions on roles, on the place in the loop
// and on add_generation_prompt. Whatever is in a Program renders exactly as in Jinja.

#ifndef HYDRANT_ENGINE_CHAT_PROGRAM_H_
#define HYDRANT_ENGINE_CHAT_PROGRAM_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/chat/chat.h"

namespace hydrant::engine::chat {

// A string: a literal, or a member of the loop's message or of the first one.
struct Text {
  enum Kind { kLiteral, kRole, kContent };
  Kind kind = kLiteral;
  std::string literal;
  bool of_first_message = false;  // instead of the loop's
  bool trim = false;              // white space at both ends goes
};

struct Condition {
  enum Kind { kConstant, kAddGenerationPrompt, kLoopFirst, kLoopLast, kEqual, kNot, kAnd, kOr };
  Kind kind = kConstant;
  bool constant = true;
  std::vector<Text> compared;       // two, of kEqual
  std::vector<Condition> operands;  // one of kNot, more of kAnd and kOr
};

struct Node {
  struct Branch {
    Condition condition;
    std::vector<Node> body;
  };
  enum Kind { kOutput, kIf, kForEachMessage };
  Kind kind = kOutput;
  std::vector<Text> output;
  std::vector<Branch> branches;  // of kIf: the first whose condition holds
  std::vector<Node> body;        // of kForEachMessage
};

struct Program {
  std::vector<Node> nodes;

  // UNIMPLEMENTED names the part of the template that is none of the above.
  static absl::StatusOr<Program> Parse(std::string_view source);
  // `conversation` has a message.
  std::string Run(const Conversation& conversation) const;
};

}  // namespace hydrant::engine::chat

#endif  // HYDRANT_ENGINE_CHAT_PROGRAM_H_
