#include "engine/models/model.h"

#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/models/decoders.h"

namespace hydrant::engine {
namespace {

struct Architecture {
  std::string_view model_type;
  MakeDecoder* make;
};

constexpr Architecture kArchitectures[] = {
    {"llama", MakeLlama},        {"mistral", MakeLlama}, {"qwen2", MakeLlama},
    {"qwen3", MakeLlama},        {"opt", MakeOpt},       {"gpt_neox", MakeGptNeoX},
    {"gemma3_text", MakeGemma3},
};

}  // namespace

absl::StatusOr<std::unique_ptr<Model>> Model::Load(const weights::Checkpoint& checkpoint,
                                                   kernels::Backend& backend,
                                                   const Options& options,
                                                   const Progress& progress) {
  const ModelConfig& config = checkpoint.config();
  std::string supported;
  for (const Architecture& architecture : kArchitectures) {
    if (architecture.model_type == config.model_type) {
      std::unique_ptr<DecoderModel> model = architecture.make(config, backend);
      absl::Status status = model->Init(checkpoint, options, progress);
      if (!status.ok()) return status;
      return std::unique_ptr<Model>(std::move(model));
    }
    absl::StrAppend(&supported, supported.empty() ? "" : ", ",
                    std::string(architecture.model_type));
  }
  return absl::UnimplementedError(absl::StrCat("model_type \"", config.model_type,
                                               "\" is not supported; supported: ", supported));
}

}  // namespace hydrant::engine
