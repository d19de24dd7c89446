// LLaMA (1 to 3): RMSNorm, rotary embedding, grouped-query attention, gated MLP.

#ifndef HYDRANT_ENGINE_MODELS_LLAMA_H_
#define HYDRANT_ENGINE_MODELS_LLAMA_H_

#include <memory>
#include <optional>
#include <vector>

#include "engine/models/blocks.h"
#include "engine/models/model.h"

namespace hydrant::engine {

class Llama final : public Model {
 public:
  static absl::StatusOr<std::unique_ptr<Model>> Load(const weights::Checkpoint& checkpoint,
                                                     kernels::Backend& backend,
                                                     const Options& options,
                                                     const Progress& progress);

  const ModelConfig& config() const override { return config_; }
  kernels::AttentionShape attention_shape() const override;
  size_t weight_bytes() const override { return weight_bytes_; }
  void Forward(const kernels::Batch& batch, kernels::KvStore& kv) override;
  std::span<float> Logits(std::span<const int32_t> rows) override;

 private:
  struct Layer {
    kernels::Buffer input_norm, mlp_norm;
    LinearLayer qkv, output, gate_up, down;
  };
  // Activations of one pass, [max_rows, ...]; a pass uses the first rows of each.
  struct Workspace {
    kernels::Buffer hidden, normed, qkv, attention, gate_up, activated, rope, last, logits;
  };

  Llama(ModelConfig config, kernels::Backend& backend)
      : config_(std::move(config)), backend_(backend) {}
  absl::Status LoadWeights(const weights::Checkpoint& checkpoint, const Options& options,
                           const Progress& progress);
  void Reserve(const Options& options);
  void RunLayer(const Layer& layer, int index, const kernels::Batch& batch, kernels::KvStore& kv);

  ModelConfig config_;
  kernels::Backend& backend_;
  kernels::Activation activation_ = kernels::Activation::kSilu;
  kernels::RopeParams rope_;
  kernels::MatrixSource embedding_;
  std::vector<Layer> layers_;
  kernels::Buffer final_norm_;
  LinearLayer head_;
  Workspace work_;
  int64_t rows_ = 0;  // of the last pass
  size_t weight_bytes_ = 0;
};

}  // namespace hydrant::engine

#endif  // HYDRANT_ENGINE_MODELS_LLAMA_H_
