#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/chat/chat.h"
#include "engine/tokenizer/tokenizer.h"
#include "engine/weights/chat_templates.h"
#include "engine/weights/gguf.h"
#include "server/command_line.h"
#include "server/commands/commands.h"

namespace hydrant::server {
namespace {

using engine::Tokenizer;

// What of a checkpoint turns text to ids. No weights are needed.
struct Vocabulary {
  std::unique_ptr<engine::weights::GgufFile> gguf;  // the tokenizer may look into it
  std::unique_ptr<Tokenizer> tokenizer;
  engine::weights::ChatTemplates chat_templates;
};

absl::StatusOr<Vocabulary> OpenVocabulary(const std::string& path) {
  Vocabulary vocabulary;
  if (std::filesystem::is_directory(path)) {
    auto tokenizer = Tokenizer::FromDirectory(path);
    if (!tokenizer.ok()) return tokenizer.status();
    vocabulary.tokenizer = *std::move(tokenizer);
    auto chat_templates = engine::weights::ReadChatTemplates(path);
    if (!chat_templates.ok()) return chat_templates.status();
    vocabulary.chat_templates = *std::move(chat_templates);
    return vocabulary;
  }
  auto gguf = engine::weights::GgufFile::Open(path);
  if (!gguf.ok()) return gguf.status();
  vocabulary.gguf = *std::move(gguf);
  auto tokenizer = Tokenizer::FromGguf(*vocabulary.gguf);
  if (!tokenizer.ok()) return tokenizer.status();
  vocabulary.tokenizer = *std::move(tokenizer);
  auto chat_templates = engine::weights::ReadChatTemplates(*vocabulary.gguf);
  if (!chat_templates.ok()) return chat_templates.status();
  vocabulary.chat_templates = *std::move(chat_templates);
  return vocabulary;
}

// [{"role": ..., "content": ...}, ...], or an object with that under "messages" and the template's
// other variables beside it.
absl::StatusOr<nlohmann::ordered_json> ReadConversation(const std::string& path) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(absl::StrCat(path, ": cannot be read"));
  // In the order of the file, which templates may print.
  nlohmann::ordered_json json;
  try {
    json = nlohmann::ordered_json::parse(file);
  } catch (const nlohmann::ordered_json::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", error.what()));
  }
  if (json.is_array()) json = nlohmann::ordered_json{{"messages", std::move(json)}};
  if (!json.is_object() || !json.contains("messages")) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": not a list of messages"));
  }
  return json;
}

// The template of that name; without one, as transformers chooses: "tool_use" for a conversation
// with tools where there is such a template, else "default".
absl::StatusOr<std::string_view> ChooseTemplate(const engine::weights::ChatTemplates& templates,
                                                std::string name, bool has_tools) {
  if (templates.empty()) {
    return absl::FailedPreconditionError("the checkpoint has no chat template");
  }
  if (name.empty()) {
    name = has_tools && templates.contains("tool_use") ? "tool_use"
                                                       : engine::weights::kDefaultTemplate;
  }
  const auto found = templates.find(name);
  if (found != templates.end()) return found->second;
  std::string names;
  for (const auto& [known, source] : templates) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", known);
  }
  return absl::NotFoundError(
      absl::StrCat("the checkpoint has no chat template \"", name, "\"; it has: ", names));
}

absl::StatusOr<std::string> RenderChat(const Vocabulary& vocabulary, const std::string& path,
                                       const std::string& template_name) {
  const auto variables = ReadConversation(path);
  if (!variables.ok()) return variables.status();
  const auto source =
      ChooseTemplate(vocabulary.chat_templates, template_name,
                     variables->contains("tools") && !variables->at("tools").is_null());
  if (!source.ok()) return source.status();
  auto parsed =
      engine::chat::Template::Parse(std::string(*source), vocabulary.tokenizer->named_tokens());
  if (!parsed.ok()) return parsed.status();
  engine::chat::Conversation conversation;
  conversation.variables = variables->dump();
  return parsed->Render(conversation);
}

void PrintIds(const std::vector<int32_t>& ids) {
  std::string line;
  for (int32_t id : ids) absl::StrAppend(&line, line.empty() ? "" : " ", id);
  std::puts(line.c_str());
}

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "hydrant tokenize: %s\n", std::string(status.message()).c_str());
  return 1;
}

}  // namespace

int Tokenize(const Arguments& arguments) {
  std::string model, chat, template_name;
  bool add_special_tokens = true;
  bool render = false;
  CLI::App app(
      "Prints the token ids of standard input, or of a conversation, on one line. Needs a "
      "checkpoint's vocabulary only, not its weights.",
      "hydrant tokenize");
  app.add_option("--model", model, "A .gguf file, or a Hugging Face directory")
      ->required()
      ->type_name("PATH");
  app.add_flag("--add_special_tokens", add_special_tokens,
               "What the tokenizer itself puts around a text, such as bos; =false: nothing")
      ->default_str("true");
  CLI::Option* chat_flag =
      app.add_option("--chat", chat,
                     "A JSON file of messages [{\"role\": \"user\", \"content\": \"Hi\"}], instead "
                     "of standard input")
          ->type_name("FILE");
  app.add_flag("--render", render, "Prints the prompt text after the template instead of ids")
      ->needs(chat_flag);
  app.add_option("--chat_template", template_name,
                 "Which of the checkpoint's named templates; without it \"tool_use\" for a "
                 "conversation with tools, if there is one, and else \"default\"")
      ->needs(chat_flag)
      ->type_name("NAME");
  if (const auto exit_code = ParseFlags(app, arguments)) return *exit_code;

  const auto vocabulary = OpenVocabulary(model);
  if (!vocabulary.ok()) return Fail(vocabulary.status());
  if (chat.empty()) {
    const std::string text(std::istreambuf_iterator<char>(std::cin), {});
    PrintIds(vocabulary->tokenizer->Encode(text, add_special_tokens));
    return 0;
  }
  const auto prompt = RenderChat(*vocabulary, chat, template_name);
  if (!prompt.ok()) return Fail(prompt.status());
  if (render) {
    std::fwrite(prompt->data(), 1, prompt->size(), stdout);
  } else {
    PrintIds(vocabulary->tokenizer->Encode(*prompt, /*add_special_tokens=*/false));
  }
  return 0;
}

}  // namespace hydrant::server
