// Chat input and the checkpoint's template that turns it into prompt text.
//
// Today ChatML-shaped templates are recognised by what they render, not by name; any other template
// is a clear error until an interpreter for them is here.

#ifndef HYDRANT_ENGINE_CHAT_CHAT_H_
#define HYDRANT_ENGINE_CHAT_CHAT_H_

#include <optional>
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

class Template {
 public:
  // `source` is the Jinja text as the checkpoint has it. An unsupported template is
  // UNIMPLEMENTED, naming what was not understood.
  static absl::StatusOr<Template> Parse(std::string source);

  // The prompt text; it already holds the special tokens, so it is tokenised without adding any.
  // INVALID_ARGUMENT for what the template refuses (no messages, an unknown role).
  absl::StatusOr<std::string> Render(const Conversation& conversation) const;

 private:
  std::string default_system_;  // ChatML: prepended when the first message is not a system's
};

}  // namespace hydrant::engine::chat

#endif  // HYDRANT_ENGINE_CHAT_CHAT_H_
