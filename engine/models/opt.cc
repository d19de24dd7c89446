// OPT: LayerNorm before each block (or after it, as in the 350m model, whose embedding is narrower
// than its layers), learned positions, no RoPE.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/models/decoders.h"

namespace hydrant::engine {
namespace {

// The table of positions starts with two rows that no token uses.
constexpr int32_t kPositionOffset = 2;

class Opt final : public DecoderModel {
 public:
  Opt(const ModelConfig& config, kernels::Backend& backend)
      : DecoderModel(config, backend,
                     {"model.decoder.layers.", "model.decoder.embed_tokens",
                      "model.decoder.final_layer_norm", "lm_head"},
                     NormKind::kLayer) {}

 private:
  struct Layer {
    Norm attention_norm, mlp_norm;
    AttentionBlock attention;
    MlpBlock mlp;
  };

  absl::Status LoadLayer(WeightLoader& loader, const std::string& prefix) override {
    const ModelConfig& c = config();
    Layer layer;
    LoadStatus load;
    load(layer.attention_norm, LoadNorm(loader, prefix + "self_attn_layer_norm"));
    load(layer.attention, LoadAttention(loader, prefix + "self_attn.", "out_proj"));
    load(layer.mlp_norm, LoadNorm(loader, prefix + "final_layer_norm"));
    load(layer.mlp, LoadPlainMlp(loader, prefix + "fc1", prefix + "fc2", c.mlp_bias));
    layers_.push_back(std::move(layer));
    return load.status();
  }

  absl::Status LoadRest(WeightLoader& loader) override {
    const ModelConfig& c = config();
    LoadStatus load;
    load(positions_,
         loader.Table("model.decoder.embed_positions.weight",
                      int64_t{c.max_position_embeddings} + kPositionOffset, c.hidden_size));
    if (embedding_cols() != c.hidden_size) {
      load(project_in_,
           loader.Linear({{"model.decoder.project_in", c.hidden_size}}, embedding_cols(), false));
      load(project_out_,
           loader.Linear({{"model.decoder.project_out", embedding_cols()}}, c.hidden_size, false));
      projected_out_ = AllocateRows(max_logit_rows(), embedding_cols());
    }
    return load.status();
  }

  void Embed(const kernels::Batch& batch) override {
    if (project_in_.weight) {
      const kernels::Matrix narrow{branch().data, batch.num_rows(), embedding_cols()};
      backend().Embed(embedding(), batch.token_ids, 1.0f, narrow);
      backend().Linear(narrow, *project_in_.weight, nullptr, false, hidden());
    } else {
      backend().Embed(embedding(), batch.token_ids, 1.0f, hidden());
    }
    rows_of_positions_.clear();
    for (const int32_t position : batch.positions) {
      rows_of_positions_.push_back(position + kPositionOffset);
    }
    backend().Embed(*positions_, rows_of_positions_, 1.0f, normed());
    backend().Add(normed(), hidden());
  }

  void RunLayer(int index) override {
    const Layer& layer = layers_[index];
    const bool before = config().do_layer_norm_before;
    if (before) RunNorm(layer.attention_norm, hidden(), normed());
    RunAttention(layer.attention, index, before ? normed() : hidden(), /*accumulate=*/true,
                 hidden());
    if (!before) RunNorm(layer.attention_norm, hidden(), hidden());
    if (before) RunNorm(layer.mlp_norm, hidden(), normed());
    RunMlp(layer.mlp, before ? normed() : hidden(), /*accumulate=*/true, hidden());
    if (!before) RunNorm(layer.mlp_norm, hidden(), hidden());
  }

  kernels::Matrix ProjectOut(kernels::Matrix rows) override {
    if (!project_out_.weight) return rows;
    const kernels::Matrix projected{projected_out_.data(), rows.rows, embedding_cols()};
    backend().Linear(rows, *project_out_.weight, nullptr, false, projected);
    return projected;
  }

  std::vector<Layer> layers_;
  std::unique_ptr<kernels::Table> positions_;
  std::vector<int32_t> rows_of_positions_;
  LinearLayer project_in_, project_out_;  // where the embedding is narrower
  kernels::Buffer projected_out_;
};

}  // namespace

std::unique_ptr<DecoderModel> MakeOpt(const ModelConfig& config, kernels::Backend& backend) {
  return std::make_unique<Opt>(config, backend);
}

}  // namespace hydrant::engine
