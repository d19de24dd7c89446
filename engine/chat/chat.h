// Chat input and the checkpoint's template that turns it into prompt text.
//
// Templates built from ChatML's parts (program.h) are understood whatever the model is called, as
// long as every part is known to render as in Jinja; any other template is a clear error until an
// interpreter for the whole language is here.

#ifndef HYDRANT_ENGINE_CHAT_CHAT_H_
#define HYDRANT_ENGINE_CHAT_CHAT_H_

#include <memory>
#include <string>
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
};

struct Program;

class Template {
 public:
  // `source` is the Jinja text as the checkpoint has it. An unsupported template is
  // UNIMPLEMENTED, naming what was not understood.
  static absl::StatusOr<Template> Parse(std::string source);

  // The prompt text; it already holds the special tokens, so it is tokenised without adding any.
  // INVALID_ARGUMENT when there is no message, or one without a role.
  absl::StatusOr<std::string> Render(const Conversation& conversation) const;

 private:
  explicit Template(std::shared_ptr<const Program> program);
  std::shared_ptr<const Program> program_;  // immutable, so copies share it
};

}  // namespace hydrant::engine::chat

#endif  // HYDRANT_ENGINE_CHAT_CHAT_H_
