#include "engine/models/model.h"

#include "absl/strings/str_cat.h"
#include "engine/models/llama.h"

namespace hydrant::engine {

absl::StatusOr<std::unique_ptr<Model>> Model::Load(const weights::Checkpoint& checkpoint,
                                                   kernels::Backend& backend,
                                                   const Options& options,
                                                   const Progress& progress) {
  const std::string& type = checkpoint.config().model_type;
  if (type == "llama") return Llama::Load(checkpoint, backend, options, progress);
  return absl::UnimplementedError(
      absl::StrCat("model_type \"", type, "\" is not supported; supported: llama"));
}

}  // namespace hydrant::engine
