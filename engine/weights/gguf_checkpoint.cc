#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/tokenizer/tokenizer.h"
#include "engine/weights/ggml_types.h"
#include "engine/weights/gguf.h"
#include "engine/weights/gguf_family.h"
#include "engine/weights/loaded_checkpoint.h"
#include "engine/weights/mapped_file.h"
#include "engine/weights/quote.h"

namespace hydrant::engine::weights {
namespace {

class GgufCheckpoint : public LoadedCheckpoint {
 public:
  GgufCheckpoint(std::unique_ptr<GgufFile> file, CheckpointContents contents)
      : LoadedCheckpoint(std::move(contents)), file_(std::move(file)) {}

  std::string_view format() const override { return "gguf"; }
  absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer() const override {
    return Tokenizer::FromGguf(*file_);
  }
  absl::StatusOr<std::string> TokenizerKind() const override {
    std::string kind;
    for (const char* key : {"tokenizer.ggml.model", "tokenizer.ggml.pre"}) {
      const auto value = file_->String(key);
      if (!value.ok()) return value.status();
      if (!value->has_value()) continue;
      absl::StrAppend(&kind, kind.empty() ? "" : ", pre-tokenizer ", std::string(**value));
    }
    return kind;
  }
  void DropPages() const override { file_->file().DropPages(); }

 private:
  std::unique_ptr<GgufFile> file_;
};

absl::Status AddTensors(const GgufFamily& family, const GgufFile& file,
                        CheckpointContents* contents) {
  for (const GgufTensor& tensor : file.tensors()) {
    if (tensor.name == kRopeFreqsTensor) continue;
    const auto error = [&](const auto&... reason) {
      return absl::InvalidArgumentError(
          absl::StrCat(file.path(), ": tensor ", Quote(tensor.name), reason...));
    };
    std::optional<MappedName> name = MapGgufName(family, tensor.name);
    if (!name.has_value()) {
      // Leaving it out would run another model than the file's.
      return error(" is not part of the architecture '", family.architecture, "'");
    }
    const GgmlType* type = FindGgmlType(tensor.type);
    if (type->dequantize == nullptr) {
      return error(" is of type ", type->name,
                   ", which is not supported; supported: ", ReadableGgmlTypes());
    }
    StoredTensor stored;
    stored.name = std::move(name->hugging_face);
    stored.file_name = tensor.name;
    stored.type = type->name;
    stored.cols = tensor.dims[0];
    stored.rows = 1;
    for (size_t i = 1; i < tensor.dims.size(); ++i) stored.rows *= tensor.dims[i];
    stored.data = tensor.data;
    stored.row_bytes = stored.cols / type->block_size * type->block_bytes;
    stored.dequantize = type->dequantize;
    stored.read_groups = type->read_groups;
    stored.order = name->order;
    stored.head_dim = contents->config.head_dim;
    if (absl::Status status = contents->tensors.Add(std::move(stored)); !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Checkpoint>> OpenGgufCheckpoint(const std::string& path) {
  absl::StatusOr<std::unique_ptr<GgufFile>> opened = GgufFile::Open(path);
  if (!opened.ok()) return opened.status();
  std::unique_ptr<GgufFile> file = *std::move(opened);
  const auto parts = file->Int("split.count");
  if (!parts.ok()) return parts.status();
  if (parts->value_or(1) > 1) {
    return absl::UnimplementedError(absl::StrCat(path, ": one part of ", **parts,
                                                 "; merge the parts into one GGUF file first"));
  }
  const absl::StatusOr<const GgufFamily*> family = FindGgufFamily(*file);
  if (!family.ok()) return family.status();

  CheckpointContents contents(path);
  absl::StatusOr<ModelConfig> config = ReadGgufConfig(**family, *file);
  if (!config.ok()) return config.status();
  contents.config = *std::move(config);
  absl::StatusOr<GenerationConfig> generation =
      ReadGgufGenerationConfig(*file, contents.config.vocab_size);
  if (!generation.ok()) return generation.status();
  contents.generation_config = *std::move(generation);
  absl::StatusOr<ChatTemplates> chat_templates = ReadChatTemplates(*file);
  if (!chat_templates.ok()) return chat_templates.status();
  contents.chat_templates = *std::move(chat_templates);
  if (absl::Status status = AddTensors(**family, *file, &contents); !status.ok()) return status;
  file->file().AdviseSequential();
  return std::make_unique<GgufCheckpoint>(std::move(file), std::move(contents));
}

}  // namespace hydrant::engine::weights
