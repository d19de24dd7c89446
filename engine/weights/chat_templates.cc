#include "engine/weights/chat_templates.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/weights/field_reader.h"
#include "engine/weights/gguf.h"
#include "engine/weights/json_file.h"
#include "nlohmann/json.hpp"

namespace hydrant::engine::weights {
namespace {

using nlohmann::json;

constexpr uint64_t kMaxTemplateBytes = 1 << 20;
constexpr uint64_t kMaxTokenizerConfigBytes = 16 << 20;  // lists every added token

// tokenizer_config.json's chat_template.
absl::Status ReadConfigured(const std::string& directory, ChatTemplates* templates) {
  const std::string path = absl::StrCat(directory, "/tokenizer_config.json");
  const absl::StatusOr<json> root = ReadJson(path, kMaxTokenizerConfigBytes);
  if (absl::IsNotFound(root.status())) return absl::OkStatus();
  if (!root.ok()) return root.status();
  JsonFields fields(path, *root);
  const json* value = fields.Find("chat_template");
  if (value == nullptr) return absl::OkStatus();
  if (value->is_string()) {
    templates->emplace(kDefaultTemplate, value->get<std::string>());
    return absl::OkStatus();
  }
  if (!value->is_array()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": chat_template is neither a string nor a list of named templates"));
  }
  for (const json& entry : *value) {
    JsonFields named(absl::StrCat(path, ": chat_template"), entry);
    const std::optional<std::string> name = named.String("name");
    const std::optional<std::string> source = named.String("template");
    if (!named.status().ok()) return named.status();
    if (name && source) templates->emplace(*name, *source);
  }
  return absl::OkStatus();
}

absl::Status ReadFile(const std::string& path, std::string name, ChatTemplates* templates) {
  absl::StatusOr<std::string> text = ReadText(path, kMaxTemplateBytes);
  if (absl::IsNotFound(text.status())) return absl::OkStatus();
  if (!text.ok()) return text.status();
  templates->insert_or_assign(std::move(name), *std::move(text));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ChatTemplates> ReadChatTemplates(const std::string& directory) {
  ChatTemplates templates;
  const std::string default_path = absl::StrCat(directory, "/chat_template.jinja");
  // A directory that has files of templates has them all there.
  std::error_code none;
  if (!std::filesystem::exists(default_path, none)) {
    if (absl::Status status = ReadConfigured(directory, &templates); !status.ok()) return status;
  }
  if (absl::Status status = ReadFile(default_path, kDefaultTemplate, &templates); !status.ok()) {
    return status;
  }
  const std::filesystem::path more = absl::StrCat(directory, "/additional_chat_templates");
  for (auto entry = std::filesystem::directory_iterator(more, none);
       !none && entry != std::filesystem::directory_iterator(); entry.increment(none)) {
    if (entry->path().extension() != ".jinja") continue;
    absl::Status status = ReadFile(entry->path(), entry->path().stem(), &templates);
    if (!status.ok()) return status;
  }
  return templates;
}

absl::StatusOr<ChatTemplates> ReadChatTemplates(const GgufFile& file) {
  constexpr std::string_view kKey = "tokenizer.chat_template";
  ChatTemplates templates;
  const auto source = file.String(kKey);
  if (!source.ok()) return source.status();
  if (source->has_value()) templates.emplace(kDefaultTemplate, **source);
  const auto names = file.Strings("tokenizer.chat_templates");
  if (!names.ok()) return names.status();
  if (!names->has_value()) return templates;
  for (const std::string_view name : **names) {
    const auto named = file.String(std::string(kKey) + "." + std::string(name));
    if (!named.ok()) return named.status();
    if (named->has_value()) templates.emplace(name, **named);
  }
  return templates;
}

}  // namespace hydrant::engine::weights
