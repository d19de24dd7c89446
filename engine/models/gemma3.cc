// Gemma 3, text: a norm before and after each block, a norm of each query and key head, embeddings
// scaled by the root of their size, layers with a sliding window between full ones, each kind with
// a RoPE of its own.

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "engine/models/decoders.h"

namespace hydrant::engine {
namespace {

class Gemma3 final : public DecoderModel {
 public:
  Gemma3(const ModelConfig& config, kernels::Backend& backend)
      : DecoderModel(config, backend,
                     {"model.layers.", "model.embed_tokens", "model.norm", "lm_head"},
                     NormKind::kRms) {
    embedding_scale_ = std::sqrt(static_cast<float>(config.hidden_size));
  }

 private:
  struct Layer {
    Norm input_norm, attention_norm, mlp_norm, output_norm;
    AttentionBlock attention;
    MlpBlock mlp;
  };

  absl::Status LoadLayer(WeightLoader& loader, const std::string& prefix) override {
    Layer layer;
    LoadStatus load;
    load(layer.input_norm, LoadNorm(loader, prefix + "input_layernorm"));
    load(layer.attention, LoadAttention(loader, prefix + "self_attn.", "o_proj"));
    load(layer.attention.query_norm, LoadHeadNorm(loader, prefix + "self_attn.q_norm"));
    load(layer.attention.key_norm, LoadHeadNorm(loader, prefix + "self_attn.k_norm"));
    load(layer.attention_norm, LoadNorm(loader, prefix + "post_attention_layernorm"));
    load(layer.mlp_norm, LoadNorm(loader, prefix + "pre_feedforward_layernorm"));
    load(layer.mlp, LoadGatedMlp(loader, prefix + "mlp."));
    load(layer.output_norm, LoadNorm(loader, prefix + "post_feedforward_layernorm"));
    layers_.push_back(std::move(layer));
    return load.status();
  }

  void RunLayer(int index) override {
    const Layer& layer = layers_[index];
    RunNorm(layer.input_norm, hidden(), normed());
    RunAttention(layer.attention, index, normed(), /*accumulate=*/false, branch());
    RunNorm(layer.attention_norm, branch(), branch());
    backend().Add(branch(), hidden());
    RunNorm(layer.mlp_norm, hidden(), normed());
    RunMlp(layer.mlp, normed(), /*accumulate=*/false, branch());
    RunNorm(layer.output_norm, branch(), branch());
    backend().Add(branch(), hidden());
  }

  std::vector<Layer> layers_;
};

}  // namespace

std::unique_ptr<DecoderModel> MakeGemma3(const ModelConfig& config, kernels::Backend& backend) {
  return std::make_unique<Gemma3>(config, backend);
}

}  // namespace hydrant::engine
