#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/tokenizer/tokenizer.h"
#include "engine/weights/field_reader.h"
#include "engine/weights/hf_config.h"
#include "engine/weights/hf_family.h"
#include "engine/weights/hf_tensor_names.h"
#include "engine/weights/json_file.h"
#include "engine/weights/loaded_checkpoint.h"
#include "engine/weights/quote.h"
#include "engine/weights/safetensors.h"
#include "nlohmann/json.hpp"

namespace hydrant::engine::weights {
namespace {

using nlohmann::json;

constexpr uint64_t kMaxConfigBytes = 1 << 20;
constexpr uint64_t kMaxIndexBytes = 16 << 20;
constexpr uint64_t kMaxTokenizerBytes = 256 << 20;
constexpr size_t kMaxShards = 4096;
constexpr char kIndexName[] = "/model.safetensors.index.json";

// "BPE, byte-level", of a directory's tokenizer.json.
absl::StatusOr<std::string> ReadTokenizerKind(const std::string& directory) {
  const std::string path = absl::StrCat(directory, "/tokenizer.json");
  const absl::StatusOr<json> root = ReadJson(path, kMaxTokenizerBytes);
  if (!root.ok()) return root.status();
  JsonFields fields(path, *root);
  const json* model = fields.Find("model");
  if (model == nullptr) return std::string();
  JsonFields model_fields(absl::StrCat(path, ": model"), *model);
  std::string kind = model_fields.String("type").value_or("");
  const json* pre_tokenizer = fields.Find("pre_tokenizer");
  if (model_fields.Bool("byte_fallback").value_or(false)) kind += ", byte fallback";
  if (pre_tokenizer != nullptr &&
      pre_tokenizer->dump(-1, ' ', true).find("\"ByteLevel\"") != std::string::npos) {
    kind += ", byte-level";
  }
  if (!model_fields.status().ok()) return model_fields.status();
  return kind;
}

class HfCheckpoint : public LoadedCheckpoint {
 public:
  HfCheckpoint(std::string path, std::vector<std::unique_ptr<SafetensorsFile>> files,
               CheckpointContents contents)
      : LoadedCheckpoint(std::move(contents)), path_(std::move(path)), files_(std::move(files)) {}

  std::string_view format() const override { return "safetensors"; }
  absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer() const override {
    return Tokenizer::FromDirectory(path_);
  }
  absl::StatusOr<std::string> TokenizerKind() const override { return ReadTokenizerKind(path_); }
  void DropPages() const override {
    for (const auto& file : files_) file->file().DropPages();
  }

 private:
  std::string path_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
};

// Weights in integers or bools (masks that some models keep as buffers) are listed as unreadable.
absl::Status AddTensors(const std::string& directory, const SafetensorsFile& file,
                        const HfTensorNames& names, CheckpointContents* contents) {
  for (const SafetensorsTensor& tensor : file.tensors()) {
    std::optional<std::string> name = names.Map(tensor.name);
    if (!name.has_value()) continue;
    if (tensor.dtype->is_float && tensor.dtype->dequantize == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat(directory, ": tensor ", Quote(tensor.name), " is of type ",
                       tensor.dtype->name, ", which is not supported; supported: F32, F16, BF16"));
    }
    StoredTensor stored;
    stored.name = *std::move(name);
    stored.file_name = tensor.name;
    stored.type = tensor.dtype->name;
    stored.rows = 1;
    stored.cols = tensor.shape.empty() ? 1 : tensor.shape.back();
    // A product with a 0 in it may overflow before the 0 is met.
    for (const int64_t dim : tensor.shape) {
      if (dim == 0) stored.cols = 0;
    }
    if (stored.cols > 0) {
      for (size_t i = 0; i + 1 < tensor.shape.size(); ++i) stored.rows *= tensor.shape[i];
    }
    stored.data = tensor.data;
    stored.row_bytes = stored.cols * tensor.dtype->bytes;
    stored.dequantize = tensor.dtype->dequantize;
    if (absl::Status status = contents->tensors.Add(std::move(stored)); !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

// The shards' names, checked to be names of files beside the index.
absl::StatusOr<std::set<std::string>> ReadShardNames(const std::string& where, const json& index) {
  JsonFields fields(where, index);
  const json* map = fields.Find("weight_map");
  if (map == nullptr || !map->is_object() || map->empty()) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": weight_map is missing or empty"));
  }
  std::set<std::string> names;
  for (const auto& [tensor, file] : map->items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    if (!name.ends_with(".safetensors") || name.find('/') != std::string::npos ||
        name.find('\0') != std::string::npos) {
      return absl::InvalidArgumentError(absl::StrCat(
          where, ": weight_map places ", Quote(tensor), " in ", Quote(file.dump(-1, ' ', true)),
          "; expected the name of a .safetensors file in the same directory"));
    }
    names.insert(name);
    if (names.size() > kMaxShards) {
      return absl::InvalidArgumentError(absl::StrCat(where, ": more than ", kMaxShards, " shards"));
    }
  }
  return names;
}

// weight_map names tensors that are there.
absl::Status CheckIndex(const std::string& where, const json& index,
                        const std::vector<std::string_view>& saved) {
  const std::set<std::string_view> there(saved.begin(), saved.end());
  for (const auto& [tensor, file] : index["weight_map"].items()) {
    if (there.contains(tensor)) continue;
    return absl::InvalidArgumentError(absl::StrCat(where, ": weight_map places ", Quote(tensor),
                                                   " in ", Quote(file.get<std::string>()),
                                                   ", which does not have it"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::unique_ptr<SafetensorsFile>>> OpenFiles(
    const std::string& directory, std::optional<json>* index) {
  std::vector<std::unique_ptr<SafetensorsFile>> files;
  const auto open = [&](const std::string& name) {
    absl::StatusOr<std::unique_ptr<SafetensorsFile>> file =
        SafetensorsFile::Open(absl::StrCat(directory, "/", name));
    if (!file.ok()) return file.status();
    (*file)->file().AdviseSequential();
    files.push_back(*std::move(file));
    return absl::OkStatus();
  };
  const absl::Status single = open("model.safetensors");
  if (single.ok()) return files;
  if (!absl::IsNotFound(single)) return single;

  const std::string where = absl::StrCat(directory, kIndexName);
  absl::StatusOr<json> read = ReadJson(where, kMaxIndexBytes);
  if (absl::IsNotFound(read.status())) {
    return absl::NotFoundError(absl::StrCat(
        directory, ": neither model.safetensors nor model.safetensors.index.json is there"));
  }
  if (!read.ok()) return read.status();
  *index = *std::move(read);
  const absl::StatusOr<std::set<std::string>> names = ReadShardNames(where, **index);
  if (!names.ok()) return names.status();
  for (const std::string& name : *names) {
    if (absl::Status status = open(name); !status.ok()) return status;
  }
  return files;
}

absl::StatusOr<std::vector<std::unique_ptr<SafetensorsFile>>> OpenWeights(
    const std::string& directory, CheckpointContents* contents) {
  std::optional<json> index;
  absl::StatusOr<std::vector<std::unique_ptr<SafetensorsFile>>> files =
      OpenFiles(directory, &index);
  if (!files.ok()) return files;
  std::vector<std::string_view> saved;
  for (const auto& file : *files) {
    for (const SafetensorsTensor& tensor : file->tensors()) saved.push_back(tensor.name);
  }
  const HfTensorNames names(FindHfFamily(contents->config.model_type)->base, saved);
  for (const auto& file : *files) {
    if (absl::Status status = AddTensors(directory, *file, names, contents); !status.ok()) {
      return status;
    }
  }
  if (!index.has_value()) return files;
  const absl::Status status = CheckIndex(absl::StrCat(directory, kIndexName), *index, saved);
  if (!status.ok()) return status;
  return files;
}

absl::StatusOr<GenerationConfig> ReadGeneration(const std::string& directory, const json& config,
                                                int32_t vocab_size) {
  const std::string config_path = absl::StrCat(directory, "/config.json");
  const std::string path = absl::StrCat(directory, "/generation_config.json");
  absl::StatusOr<json> root = ReadJson(path, kMaxConfigBytes);
  if (absl::IsNotFound(root.status())) {
    // As transformers does: older checkpoints keep these fields in config.json.
    return ReadHfGenerationConfig(config_path, config, vocab_size);
  }
  if (!root.ok()) return root.status();
  absl::StatusOr<GenerationConfig> generation = ReadHfGenerationConfig(path, *root, vocab_size);
  if (!generation.ok() || !generation->eos_token_ids.empty()) return generation;
  JsonFields fields(config_path, config);
  generation->eos_token_ids = fields.Ids("eos_token_id", vocab_size);
  if (!fields.status().ok()) return fields.status();
  return generation;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Checkpoint>> OpenHfCheckpoint(const std::string& path) {
  const std::string config_path = absl::StrCat(path, "/config.json");
  absl::StatusOr<json> root = ReadJson(config_path, kMaxConfigBytes);
  if (absl::IsNotFound(root.status())) {
    return absl::NotFoundError(
        absl::StrCat(path, ": not a Hugging Face model directory (no config.json)"));
  }
  if (!root.ok()) return root.status();
  CheckpointContents contents(path);
  absl::StatusOr<ModelConfig> config = ReadHfConfig(config_path, *root);
  if (!config.ok()) return config.status();
  contents.config = *std::move(config);
  absl::StatusOr<GenerationConfig> generation =
      ReadGeneration(path, *root, contents.config.vocab_size);
  if (!generation.ok()) return generation.status();
  contents.generation_config = *std::move(generation);
  absl::StatusOr<ChatTemplates> chat_templates = ReadChatTemplates(path);
  if (!chat_templates.ok()) return chat_templates.status();
  contents.chat_templates = *std::move(chat_templates);
  absl::StatusOr<std::vector<std::unique_ptr<SafetensorsFile>>> files =
      OpenWeights(path, &contents);
  if (!files.ok()) return files.status();
  return std::make_unique<HfCheckpoint>(path, *std::move(files), std::move(contents));
}

}  // namespace hydrant::engine::weights
