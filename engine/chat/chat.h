// Chat input and the checkpoint's template that turns it into prompt text.
//
// Templates are Jinja, and render as in Hugging Face transformers (its sandbox, whitespace rules,
// filters and functions); none is known by name. Rendering is bounded in steps and in bytes.

#ifndef HYDRANT_ENGINE_CHAT_CHAT_H_
#define HYDRANT_ENGINE_CHAT_CHAT_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace hydrant::engine::chat {

struct Message {
  std::string role;
  std::string content;
};

struct Conversation {
  std::vector<Message> messages;
  bool add_generation_prompt = true;
  // More of the template's variables, as the text of a JSON object: "tools", "documents",
  // "enable_thinking" …; "messages" here are taken instead of those above. Empty: none.
  std::string variables = {};
};

// The variables that name special tokens: {"bos_token", "<s>"}, {"eos_token", "</s>"} …
using TokenNames = std::vector<std::pair<std::string, std::string>>;

struct Program;

class Template {
 public:
  // `source` is the Jinja text as the checkpoint has it. INVALID_ARGUMENT with line and column when
  // it is malformed.
  static absl::StatusOr<Template> Parse(std::string source, TokenNames token_names = {});

  // The prompt text; it already holds the special tokens, so it is tokenised without adding any.
  // INVALID_ARGUMENT when there is no message, or one without a role, and with line and column
  // where the template fails or refuses the conversation; UNIMPLEMENTED names an unknown filter or
  // test.
  absl::StatusOr<std::string> Render(const Conversation& conversation) const;

 private:
  Template(std::shared_ptr<const Program> program, TokenNames token_names);
  std::shared_ptr<const Program> program_;  // immutable, so copies share it
  TokenNames token_names_;
};

}  // namespace hydrant::engine::chat

#endif  // HYDRANT_ENGINE_CHAT_CHAT_H_
