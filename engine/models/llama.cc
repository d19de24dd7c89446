#include "engine/models/llama.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/check.h"

namespace hydrant::engine {

using kernels::Matrix;

absl::StatusOr<std::unique_ptr<Model>> Llama::Load(const weights::Checkpoint& checkpoint,
                                                   kernels::Backend& backend,
                                                   const Options& options,
                                                   const Progress& progress) {
  std::unique_ptr<Llama> model(new Llama(checkpoint.config(), backend));
  const auto activation = ActivationByName(model->config_.hidden_act);
  if (!activation) {
    return absl::UnimplementedError(
        absl::StrCat("hidden_act \"", model->config_.hidden_act, "\" is not supported"));
  }
  model->activation_ = *activation;
  if (absl::Status status = model->LoadWeights(checkpoint, options, progress); !status.ok()) {
    return status;
  }
  model->Reserve(options);
  return std::unique_ptr<Model>(std::move(model));
}

absl::Status Llama::LoadWeights(const weights::Checkpoint& checkpoint, const Options& options,
                                const Progress& progress) {
  const ModelConfig& c = config_;
  const int64_t q_rows = int64_t{c.num_attention_heads} * c.head_dim;
  const int64_t kv_rows = int64_t{c.num_key_value_heads} * c.head_dim;
  rope_ = MakeRope(c.rope, c.head_dim);

  WeightLoader loader(checkpoint, backend_, options.weight_dtype);
  const auto load = [](auto& target, auto result) {
    if (result.ok()) target = *std::move(result);
    return result.status();
  };
  for (int i = 0; i < c.num_hidden_layers; ++i) {
    const std::string prefix = absl::StrCat("model.layers.", i, ".");
    Layer layer;
    for (const absl::Status& status : {
             load(layer.input_norm,
                  loader.Vector(prefix + "input_layernorm.weight", c.hidden_size)),
             load(layer.qkv, loader.Linear({{prefix + "self_attn.q_proj", q_rows},
                                            {prefix + "self_attn.k_proj", kv_rows},
                                            {prefix + "self_attn.v_proj", kv_rows}},
                                           c.hidden_size, c.attention_bias)),
             load(layer.output, loader.Linear({{prefix + "self_attn.o_proj", c.hidden_size}},
                                              q_rows, c.attention_bias)),
             load(layer.mlp_norm,
                  loader.Vector(prefix + "post_attention_layernorm.weight", c.hidden_size)),
             load(layer.gate_up, loader.Linear({{prefix + "mlp.gate_proj", c.intermediate_size},
                                                {prefix + "mlp.up_proj", c.intermediate_size}},
                                               c.hidden_size, c.mlp_bias)),
             load(layer.down, loader.Linear({{prefix + "mlp.down_proj", c.hidden_size}},
                                            c.intermediate_size, c.mlp_bias)),
         }) {
      if (!status.ok()) return status;
    }
    layers_.push_back(std::move(layer));
    progress(double(i + 1) / (c.num_hidden_layers + 1));
  }
  const std::string embedding = "model.embed_tokens";
  const std::string head = c.tie_word_embeddings ? embedding : "lm_head";
  for (const absl::Status& status : {
           load(embedding_, loader.Table(embedding + ".weight", c.vocab_size, c.hidden_size)),
           load(final_norm_, loader.Vector("model.norm.weight", c.hidden_size)),
           load(head_, loader.Linear({{head, c.vocab_size}}, c.hidden_size, false)),
       }) {
    if (!status.ok()) return status;
  }
  progress(1.0);
  weight_bytes_ = loader.packed_bytes();
  return absl::OkStatus();
}

void Llama::Reserve(const Options& options) {
  const ModelConfig& c = config_;
  const auto allocate = [&](int64_t rows, int64_t cols) {
    return backend_.Allocate(rows * cols * backend_.activation_bytes());
  };
  const int64_t rows = options.max_rows;
  const int64_t q_cols = int64_t{c.num_attention_heads} * c.head_dim;
  work_.hidden = allocate(rows, c.hidden_size);
  work_.normed = allocate(rows, c.hidden_size);
  work_.qkv = allocate(rows, q_cols + int64_t{2} * c.num_key_value_heads * c.head_dim);
  work_.attention = allocate(rows, q_cols);
  work_.gate_up = allocate(rows, int64_t{2} * c.intermediate_size);
  work_.activated = allocate(rows, c.intermediate_size);
  work_.rope = backend_.Allocate(rows * rope_.rotary_dim * sizeof(float));
  work_.last = allocate(2 * kMaxLogitRows, c.hidden_size);
  work_.logits = backend_.Allocate(int64_t{kMaxLogitRows} * c.vocab_size * sizeof(float));
  backend_.Reserve(options.max_rows,
                   std::max<int64_t>({c.hidden_size, c.intermediate_size, q_cols}),
                   options.max_slots, attention_shape());
}

kernels::AttentionShape Llama::attention_shape() const {
  return {config_.num_attention_heads, config_.num_key_value_heads, config_.head_dim,
          1.0f / std::sqrt(static_cast<float>(config_.head_dim))};
}

void Llama::Forward(const kernels::Batch& batch, kernels::KvStore& kv) {
  rows_ = batch.num_rows();
  backend_.Embed(embedding_, batch.token_ids, 1.0f,
                 Matrix{work_.hidden.data(), rows_, config_.hidden_size});
  backend_.ComputeRope(rope_, batch.positions, Matrix{work_.rope.data(), rows_, rope_.rotary_dim});
  for (size_t i = 0; i < layers_.size(); ++i) RunLayer(layers_[i], static_cast<int>(i), batch, kv);
}

void Llama::RunLayer(const Layer& layer, int index, const kernels::Batch& batch,
                     kernels::KvStore& kv) {
  const auto rows_of = [&](const kernels::Buffer& buffer, int64_t cols) {
    return Matrix{buffer.data(), rows_, cols};
  };
  const kernels::AttentionShape shape = attention_shape();
  const float eps = static_cast<float>(config_.rms_norm_eps);
  const Matrix hidden = rows_of(work_.hidden, config_.hidden_size);
  const Matrix normed = rows_of(work_.normed, config_.hidden_size);
  const Matrix qkv = rows_of(work_.qkv, layer.qkv.weight->rows());
  const Matrix attention = rows_of(work_.attention, layer.output.weight->cols());
  const Matrix gate_up = rows_of(work_.gate_up, layer.gate_up.weight->rows());
  const Matrix activated = rows_of(work_.activated, config_.intermediate_size);

  backend_.RmsNorm(hidden, layer.input_norm, eps, normed);
  backend_.Linear(normed, *layer.qkv.weight, layer.qkv.bias_or_null(), false, qkv);
  backend_.RopeAndStore(batch, shape, rope_.rotary_dim, rows_of(work_.rope, rope_.rotary_dim), qkv,
                        index, kv);
  backend_.Attention(batch, shape, index, qkv, kv, attention);
  backend_.Linear(attention, *layer.output.weight, layer.output.bias_or_null(), true, hidden);

  backend_.RmsNorm(hidden, layer.mlp_norm, eps, normed);
  backend_.Linear(normed, *layer.gate_up.weight, layer.gate_up.bias_or_null(), false, gate_up);
  backend_.GatedActivation(activation_, gate_up, activated);
  backend_.Linear(activated, *layer.down.weight, layer.down.bias_or_null(), true, hidden);
}

std::span<float> Llama::Logits(std::span<const int32_t> rows) {
  const int64_t count = static_cast<int64_t>(rows.size());
  HYDRANT_CHECK(count <= kMaxLogitRows);
  const int64_t row_bytes = config_.hidden_size * backend_.activation_bytes();
  const Matrix last{work_.last.data(), count, config_.hidden_size};
  const Matrix normed{static_cast<char*>(work_.last.data()) + kMaxLogitRows * row_bytes, count,
                      config_.hidden_size};
  const Matrix logits{work_.logits.data(), count, config_.vocab_size};
  backend_.GatherRows(Matrix{work_.hidden.data(), rows_, config_.hidden_size}, rows, last);
  backend_.RmsNorm(last, final_norm_, static_cast<float>(config_.rms_norm_eps), normed);
  backend_.Linear(normed, *head_.weight, head_.bias_or_null(), false, logits);
  return {backend_.HostRows(logits), static_cast<size_t>(count * config_.vocab_size)};
}

}  // namespace hydrant::engine
