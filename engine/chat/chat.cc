#include "engine/chat/chat.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/chat/program.h"

namespace hydrant::engine::chat {

Template::Template(std::shared_ptr<const Program> program) : program_(std::move(program)) {}

absl::StatusOr<Template> Template::Parse(std::string source) {
  absl::StatusOr<Program> program = Program::Parse(source);
  if (!program.ok()) return program.status();
  return Template(std::make_shared<const Program>(*std::move(program)));
}

absl::StatusOr<std::string> Template::Render(const Conversation& conversation) const {
  if (conversation.messages.empty()) {
    return absl::InvalidArgumentError("messages: there are none");
  }
  for (size_t i = 0; i < conversation.messages.size(); ++i) {
    if (conversation.messages[i].role.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("messages[", i, "].role: is empty"));
    }
  }
  return program_->Run(conversation);
}

}  // namespace hydrant::engine::chat
