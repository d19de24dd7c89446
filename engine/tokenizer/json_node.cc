#include "engine/tokenizer/json_node.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "engine/tokenizer/utf8.h"
#include "engine/weights/json_file.h"
#include "nlohmann/json.hpp"

namespace hydrant::engine {
namespace {

// Several times the longest tokenizer.json in use.
constexpr uint64_t kMaxFileBytes = 256 << 20;

absl::string_view Absl(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace

JsonNode::JsonNode(std::shared_ptr<const nlohmann::json> document, const nlohmann::json* value,
                   std::string where)
    : document_(std::move(document)), value_(value), where_(std::move(where)) {}

absl::StatusOr<JsonNode> JsonNode::ReadFile(const std::string& path) {
  absl::StatusOr<nlohmann::json> json = weights::ReadJson(path, kMaxFileBytes);
  if (!json.ok()) return json.status();
  auto document = std::make_shared<const nlohmann::json>(*std::move(json));
  const nlohmann::json* root = document.get();
  return JsonNode(std::move(document), root, path);
}

std::optional<JsonNode> JsonNode::Find(std::string_view key) const {
  if (!value_->is_object()) return std::nullopt;
  const auto found = value_->find(key);
  if (found == value_->end() || found->is_null()) return std::nullopt;
  const bool is_root = value_ == document_.get();
  return JsonNode(document_, &*found, absl::StrCat(where_, is_root ? ": " : ".", Absl(key)));
}

absl::StatusOr<JsonNode> JsonNode::Member(std::string_view key) const {
  std::optional<JsonNode> found = Find(key);
  if (!found) return Invalid(absl::StrCat("has no \"", Absl(key), "\""));
  return *std::move(found);
}

absl::StatusOr<std::string> JsonNode::String(std::string_view key) const {
  absl::StatusOr<JsonNode> member = Member(key);
  if (!member.ok()) return member.status();
  return member->AsString();
}

absl::StatusOr<std::string> JsonNode::Character(std::string_view key) const {
  absl::StatusOr<std::string> text = String(key);
  if (text.ok() && (text->empty() || Utf8Length((*text)[0]) != text->size())) {
    return Member(key)->Invalid("not one character");
  }
  return text;
}

absl::StatusOr<int64_t> JsonNode::Int(std::string_view key) const {
  absl::StatusOr<JsonNode> member = Member(key);
  if (!member.ok()) return member.status();
  return member->AsInt();
}

absl::StatusOr<bool> JsonNode::Bool(std::string_view key, bool absent) const {
  const std::optional<JsonNode> member = Find(key);
  if (!member) return absent;
  if (!member->value_->is_boolean()) return member->Invalid("not a boolean");
  return member->value_->get<bool>();
}

absl::StatusOr<std::string> JsonNode::AsString() const {
  if (!value_->is_string()) return Invalid("not a string");
  return value_->get<std::string>();
}

absl::StatusOr<int64_t> JsonNode::AsInt() const {
  if (!value_->is_number_integer()) return Invalid("not an integer");
  if (value_->is_number_unsigned() &&
      value_->get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return Invalid("too large");
  }
  return value_->get<int64_t>();
}

absl::StatusOr<double> JsonNode::AsNumber() const {
  if (!value_->is_number()) return Invalid("not a number");
  return value_->get<double>();
}

absl::StatusOr<std::vector<JsonNode>> JsonNode::AsArray() const {
  if (!value_->is_array()) return Invalid("not an array");
  std::vector<JsonNode> items;
  items.reserve(value_->size());
  for (const nlohmann::json& item : *value_) {
    items.push_back(JsonNode(document_, &item, absl::StrCat(where_, "[", items.size(), "]")));
  }
  return items;
}

absl::StatusOr<std::vector<std::pair<std::string, JsonNode>>> JsonNode::AsObject() const {
  if (!value_->is_object()) return Invalid("not an object");
  std::vector<std::pair<std::string, JsonNode>> members;
  members.reserve(value_->size());
  for (const auto& [key, value] : value_->items()) {
    members.emplace_back(key, JsonNode(document_, &value, absl::StrCat(where_, ".", key)));
  }
  return members;
}

bool JsonNode::IsString() const { return value_->is_string(); }

bool JsonNode::IsObject() const { return value_->is_object(); }

absl::Status JsonNode::Invalid(std::string_view why) const {
  return absl::InvalidArgumentError(absl::StrCat(where_, ": ", Absl(why)));
}

absl::Status JsonNode::Unsupported(std::string_view what) const {
  return absl::UnimplementedError(absl::StrCat(where_, ": ", Absl(what), " is not supported"));
}

}  // namespace hydrant::engine
