// GPT-NeoX and Pythia: LayerNorm, RoPE of a part of each head, and either both blocks on the same
// input (parallel residual) or one after the other.

#include <string>
#include <utility>
#include <vector>

#include "engine/models/decoders.h"

namespace hydrant::engine {
namespace {

class GptNeoX final : public DecoderModel {
 public:
  GptNeoX(const ModelConfig& config, kernels::Backend& backend)
      : DecoderModel(
            config, backend,
            {"gpt_neox.layers.", "gpt_neox.embed_in", "gpt_neox.final_layer_norm", "embed_out"},
            NormKind::kLayer) {}

 private:
  struct Layer {
    Norm input_norm, mlp_norm;
    AttentionBlock attention;
    MlpBlock mlp;
  };

  absl::Status LoadLayer(WeightLoader& loader, const std::string& prefix) override {
    const ModelConfig& c = config();
    Layer layer;
    LoadStatus load;
    load(layer.input_norm, LoadNorm(loader, prefix + "input_layernorm"));
    // The file has q, k and v of a head together: [heads, 3, head_dim].
    const std::string qkv = prefix + "attention.query_key_value";
    const int64_t rows = int64_t{c.num_attention_heads} * c.head_dim;
    std::vector<LinearPart> parts;
    for (int part = 0; part < 3; ++part) {
      parts.push_back({.name = qkv,
                       .rows = rows,
                       .file_rows = 3 * rows,
                       .group_rows = c.head_dim,
                       .group_stride = 3 * c.head_dim,
                       .first_row = part * c.head_dim});
    }
    load(layer.attention.qkv, loader.Linear(parts, c.hidden_size, c.attention_bias));
    load(layer.attention.output,
         loader.Linear({{prefix + "attention.dense", c.hidden_size}}, rows, c.attention_bias));
    load(layer.mlp_norm, LoadNorm(loader, prefix + "post_attention_layernorm"));
    load(layer.mlp, LoadPlainMlp(loader, prefix + "mlp.dense_h_to_4h", prefix + "mlp.dense_4h_to_h",
                                 /*bias=*/true));
    layers_.push_back(std::move(layer));
    return load.status();
  }

  void RunLayer(int index) override {
    const Layer& layer = layers_[index];
    if (config().use_parallel_residual) RunNorm(layer.mlp_norm, hidden(), branch());
    RunNorm(layer.input_norm, hidden(), normed());
    RunAttention(layer.attention, index, normed(), /*accumulate=*/true, hidden());
    if (!config().use_parallel_residual) RunNorm(layer.mlp_norm, hidden(), branch());
    RunMlp(layer.mlp, branch(), /*accumulate=*/true, hidden());
  }

  std::vector<Layer> layers_;
};

}  // namespace

std::unique_ptr<DecoderModel> MakeGptNeoX(const ModelConfig& config, kernels::Backend& backend) {
  return std::make_unique<GptNeoX>(config, backend);
}

}  // namespace hydrant::engine
