#include "engine/weights/checkpoint.h"

#include <algorithm>
#include <filesystem>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/tokenizer/tokenizer.h"
#include "engine/weights/loaded_checkpoint.h"

namespace hydrant::engine::weights {

std::vector<int32_t> EosTokenIds(const GenerationConfig& config, const Tokenizer& tokenizer) {
  std::vector<int32_t> ids = config.eos_token_ids;
  for (const int32_t id : tokenizer.eos_ids()) {
    if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
  }
  return ids;
}

absl::StatusOr<std::unique_ptr<Checkpoint>> Checkpoint::Open(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found) {
    return absl::NotFoundError(absl::StrCat(path, ": no such file or directory"));
  }
  if (error) return absl::ErrnoToStatus(error.value(), absl::StrCat(path, ": cannot open"));
  if (std::filesystem::is_directory(status)) return OpenHfCheckpoint(path);
  if (path.ends_with(".safetensors") || path.ends_with(".json")) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": give the directory that holds config.json and the weights, or a .gguf file"));
  }
  return OpenGgufCheckpoint(path);
}

const std::string* Checkpoint::chat_template() const {
  const auto found = chat_templates().find(kDefaultTemplate);
  return found == chat_templates().end() ? nullptr : &found->second;
}

}  // namespace hydrant::engine::weights
