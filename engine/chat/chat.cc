#include "engine/chat/chat.h"

#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/chat/interpreter.h"
#include "engine/chat/program.h"
#include "engine/tokenizer/utf8.h"
#include "nlohmann/json.hpp"

namespace hydrant::engine::chat {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxJsonDepth = 100;

// nullopt: nested too deeply.
std::optional<Value> ValueOf(const Json& json, int depth) {
  if (depth > kMaxJsonDepth) return std::nullopt;
  if (json.is_boolean()) return Value::Bool(json.get<bool>());
  if (json.is_number_unsigned() && json.get<uint64_t>() > INT64_MAX) {
    return Value::Float(json.get<double>());
  }
  if (json.is_number_integer()) return Value::Int(json.get<int64_t>());
  if (json.is_number()) return Value::Float(json.get<double>());
  if (json.is_string()) return Value::String(json.get<std::string>());
  if (json.is_array()) {
    std::vector<Value> items;
    for (const Json& item : json) {
      std::optional<Value> value = ValueOf(item, depth + 1);
      if (!value) return std::nullopt;
      items.push_back(*std::move(value));
    }
    return Value::List(std::move(items));
  }
  if (json.is_object()) {
    Dict dict;
    for (const auto& [key, item] : json.items()) {
      std::optional<Value> value = ValueOf(item, depth + 1);
      if (!value) return std::nullopt;
      dict.Set(Value::String(key), *std::move(value));
    }
    return Value::OfDict(std::move(dict));
  }
  return Value::None();
}

// transformers leaves out what is null, and knows reasoning under three names.
Value Normalized(const Value& message) {
  if (!message.is(Value::kDict)) return message;
  constexpr std::string_view kReasoning[] = {"reasoning_content", "thinking", "reasoning"};
  const Value* reasoning = nullptr;
  for (const std::string_view name : kReasoning) {
    const Value* found = message.dict().Find(name);
    if (found && found->is(Value::kNone)) found = nullptr;
    if (!reasoning) reasoning = found;
  }
  Dict out;
  if (reasoning) out.Set(Value::String("thinking"), *reasoning);
  for (const auto& [key, value] : message.dict().entries()) {
    if (!value.is(Value::kNone)) out.Set(key, value);
  }
  if (reasoning) out.Set(Value::String("reasoning_content"), *reasoning);
  return Value::OfDict(std::move(out));
}

Value MessagesOf(const Conversation& conversation) {
  std::vector<Value> messages;
  for (const Message& message : conversation.messages) {
    Dict dict;
    dict.Set(Value::String("role"), Value::String(ToValidUtf8(message.role)));
    dict.Set(Value::String("content"), Value::String(ToValidUtf8(message.content)));
    messages.push_back(Value::OfDict(std::move(dict)));
  }
  return Value::List(std::move(messages));
}

// Adds what `text`, a JSON object, has to `variables`.
absl::Status AddVariables(const std::string& text, Dict& variables) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return absl::InvalidArgumentError("variables: not a JSON object");
  for (const auto& [key, item] : json.items()) {
    std::optional<Value> value = ValueOf(item, 0);
    if (!value) {
      return absl::InvalidArgumentError(
          absl::StrCat(key, ": nested more than ", kMaxJsonDepth, " deep"));
    }
    variables.Set(Value::String(key), *std::move(value));
  }
  return absl::OkStatus();
}

absl::Status CheckMessages(const Value* messages) {
  if (!messages || !messages->is(Value::kList) || messages->items().empty()) {
    return absl::InvalidArgumentError("messages: there are none");
  }
  for (size_t i = 0; i < messages->items().size(); ++i) {
    const Value& message = messages->items()[i];
    if (!message.is(Value::kDict)) {
      return absl::InvalidArgumentError(absl::StrCat("messages[", i, "]: is no object"));
    }
    const Value* role = message.dict().Find("role");
    if (!role || !role->is(Value::kString) || role->text().empty()) {
      return absl::InvalidArgumentError(absl::StrCat("messages[", i, "].role: is empty"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

Template::Template(std::shared_ptr<const Program> program, TokenNames token_names)
    : program_(std::move(program)), token_names_(std::move(token_names)) {}

absl::StatusOr<Template> Template::Parse(std::string source, TokenNames token_names) {
  absl::StatusOr<Program> program = Program::Parse(source);
  if (!program.ok()) return program.status();
  return Template(std::make_shared<const Program>(*std::move(program)), std::move(token_names));
}

absl::StatusOr<std::string> Template::Render(const Conversation& conversation) const {
  Dict variables;
  for (const auto& [name, text] : token_names_) {
    variables.Set(Value::String(name), Value::String(ToValidUtf8(text)));
  }
  variables.Set(Value::String("messages"), MessagesOf(conversation));
  variables.Set(Value::String("tools"), Value::None());
  variables.Set(Value::String("documents"), Value::None());
  variables.Set(Value::String("add_generation_prompt"),
                Value::Bool(conversation.add_generation_prompt));
  size_t input_bytes = conversation.variables.size();
  for (const Message& message : conversation.messages) input_bytes += message.content.size();
  if (!conversation.variables.empty()) {
    if (absl::Status status = AddVariables(conversation.variables, variables); !status.ok()) {
      return status;
    }
  }
  const Value* messages = variables.Find("messages");
  if (absl::Status status = CheckMessages(messages); !status.ok()) return status;
  std::vector<Value> normalized;
  for (const Value& message : messages->items()) normalized.push_back(Normalized(message));
  variables.Set(Value::String("messages"), Value::List(std::move(normalized)));
  return Interpreter(*program_, variables, input_bytes).Run();
}

}  // namespace hydrant::engine::chat
