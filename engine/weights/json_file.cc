#include "engine/weights/json_file.h"

#include <unordered_set>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/weights/mapped_file.h"
#include "engine/weights/quote.h"
#include "nlohmann/json.hpp"

namespace hydrant::engine::weights {

using nlohmann::json;

absl::StatusOr<std::string> ReadText(const std::string& path, uint64_t max_bytes) {
  absl::StatusOr<std::unique_ptr<MappedFile>> file = MappedFile::Open(path);
  if (!file.ok()) return file.status();
  const auto bytes = (*file)->bytes();
  if (bytes.size() > max_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", bytes.size(), " bytes; the limit is ", max_bytes));
  }
  return std::string(bytes.begin(), bytes.end());
}

absl::StatusOr<json> ReadJson(const std::string& path, uint64_t max_bytes) {
  absl::StatusOr<std::string> text = ReadText(path, max_bytes);
  if (!text.ok()) return text.status();
  return ParseJsonObject(path, *text);
}

absl::StatusOr<json> ParseJsonObject(const std::string& where, std::string_view text) {
  std::unordered_set<std::string> keys;
  std::string twice;
  const auto note_key = [&](int depth, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::key && depth == 1) {
      const auto [key, is_new] = keys.insert(parsed.get<std::string>());
      if (!is_new) twice = *key;
    }
    return true;
  };
  json root;
  try {
    root = json::parse(text, note_key);
  } catch (const json::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": not valid JSON: ", error.what()));
  }
  if (!root.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": expected a JSON object"));
  }
  if (!twice.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": ", Quote(twice), " appears twice"));
  }
  return root;
}

}  // namespace hydrant::engine::weights
