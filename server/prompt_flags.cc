#include "server/prompt_flags.h"

#include <iostream>
#include <iterator>
#include <utility>

namespace hydrant::server {
namespace {

void AddMessage(std::string role, std::string content, v1::Chat& chat) {
  v1::ChatMessage& message = *chat.add_messages();
  message.set_role(std::move(role));
  message.set_content(std::move(content));
}

}  // namespace

void AddPromptFlags(CLI::App& app, PromptFlags& flags) {
  app.add_option("--prompt,prompt", flags.prompt, "The prompt; without it, standard input is read")
      ->type_name("TEXT");
  app.add_flag("--chat", flags.chat, "The prompt is a user's message in a conversation");
  app.add_option("--system", flags.system, "With --chat: the system's message before it")
      ->type_name("TEXT")
      ->needs("--chat");
}

void FillInput(const PromptFlags& flags, v1::GenerateRequest& request) {
  std::string prompt =
      flags.prompt ? *flags.prompt : std::string(std::istreambuf_iterator<char>(std::cin), {});
  if (!flags.chat) {
    request.set_text(std::move(prompt));
    return;
  }
  if (flags.system) AddMessage("system", *flags.system, *request.mutable_chat());
  AddMessage("user", std::move(prompt), *request.mutable_chat());
}

}  // namespace hydrant::server
