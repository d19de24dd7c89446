// The formats behind Checkpoint::Open. A loaded checkpoint is a table of tensors and what was read
// beside them; a format adds where its tokenizer is and which files it holds mapped.

#ifndef HYDRANT_ENGINE_WEIGHTS_LOADED_CHECKPOINT_H_
#define HYDRANT_ENGINE_WEIGHTS_LOADED_CHECKPOINT_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/weights/chat_templates.h"
#include "engine/weights/checkpoint.h"
#include "engine/weights/tensor_table.h"

namespace hydrant::engine::weights {

struct CheckpointContents {
  explicit CheckpointContents(const std::string& path) : tensors(path) {}

  ModelConfig config;
  GenerationConfig generation_config;
  ChatTemplates chat_templates;
  TensorTable tensors;
};

class LoadedCheckpoint : public Checkpoint {
 public:
  const ModelConfig& config() const override { return contents_.config; }
  const GenerationConfig& generation_config() const override { return contents_.generation_config; }
  const ChatTemplates& chat_templates() const override { return contents_.chat_templates; }
  bool Has(std::string_view name) const override { return contents_.tensors.Has(name); }
  absl::StatusOr<TensorView> Tensor(std::string_view name, int64_t rows,
                                    int64_t cols) const override {
    return contents_.tensors.Find(name, rows, cols);
  }
  std::vector<TensorView> Tensors() const override { return contents_.tensors.All(); }
  int64_t num_parameters() const override { return contents_.tensors.num_parameters(); }

 protected:
  explicit LoadedCheckpoint(CheckpointContents contents) : contents_(std::move(contents)) {}

 private:
  CheckpointContents contents_;
};

absl::StatusOr<std::unique_ptr<Checkpoint>> OpenGgufCheckpoint(const std::string& path);
absl::StatusOr<std::unique_ptr<Checkpoint>> OpenHfCheckpoint(const std::string& path);

}  // namespace hydrant::engine::weights

#endif  // HYDRANT_ENGINE_WEIGHTS_LOADED_CHECKPOINT_H_
