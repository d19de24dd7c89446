// LLaMA (1 to 3), and what differs from it in little: Mistral (a head size and a window of its
// own), Qwen2 (biases of q, k and v), Qwen3 (a norm of each query and key head).

#include <string>
#include <utility>
#include <vector>

#include "engine/models/decoders.h"

namespace hydrant::engine {
namespace {

class Llama final : public DecoderModel {
 public:
  Llama(const ModelConfig& config, kernels::Backend& backend)
      : DecoderModel(config, backend,
                     {"model.layers.", "model.embed_tokens", "model.norm", "lm_head"},
                     NormKind::kRms) {}

 private:
  struct Layer {
    Norm input_norm, mlp_norm;
    AttentionBlock attention;
    MlpBlock mlp;
  };

  absl::Status LoadLayer(WeightLoader& loader, const std::string& prefix) override {
    Layer layer;
    LoadStatus load;
    load(layer.input_norm, LoadNorm(loader, prefix + "input_layernorm"));
    load(layer.attention, LoadAttention(loader, prefix + "self_attn.", "o_proj"));
    if (config().model_type == "qwen3") {
      load(layer.attention.query_norm, LoadHeadNorm(loader, prefix + "self_attn.q_norm"));
      load(layer.attention.key_norm, LoadHeadNorm(loader, prefix + "self_attn.k_norm"));
    }
    load(layer.mlp_norm, LoadNorm(loader, prefix + "post_attention_layernorm"));
    load(layer.mlp, LoadGatedMlp(loader, prefix + "mlp."));
    layers_.push_back(std::move(layer));
    return load.status();
  }

  void RunLayer(int index) override {
    const Layer& layer = layers_[index];
    RunNorm(layer.input_norm, hidden(), normed());
    RunAttention(layer.attention, index, normed(), /*accumulate=*/true, hidden());
    RunNorm(layer.mlp_norm, hidden(), normed());
    RunMlp(layer.mlp, normed(), /*accumulate=*/true, hidden());
  }

  std::vector<Layer> layers_;
};

}  // namespace

std::unique_ptr<DecoderModel> MakeLlama(const ModelConfig& config, kernels::Backend& backend) {
  return std::make_unique<Llama>(config, backend);
}

}  // namespace hydrant::engine
