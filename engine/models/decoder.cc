#include "engine/models/decoder.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/check.h"

namespace hydrant::engine {

using kernels::Matrix;

namespace {

// Vocabularies are wide, and a buffer for every row of a batch would outgrow the weights of a small
// model. A device has room for more, and each buffer full of logits costs it a wait.
constexpr int kMaxLogitRows = 64, kMaxLogitRowsOfDevice = 256;

}  // namespace

absl::Status DecoderModel::Init(const weights::Checkpoint& checkpoint, const Options& options,
                                const Progress& progress) {
  const auto activation = ActivationByName(config_.hidden_act);
  if (!activation) {
    return absl::UnimplementedError(
        absl::StrCat("activation function \"", config_.hidden_act,
                     "\" (hidden_act, hidden_activation or activation_function) is not supported"));
  }
  activation_ = *activation;
  max_logit_rows_ = std::min<int>(
      options.max_rows, backend_.FreeDeviceBytes() ? kMaxLogitRowsOfDevice : kMaxLogitRows);
  absl::Status status = LoadWeights(checkpoint, options, progress);
  if (status.ok()) Reserve(options);
  return status;
}

absl::Status DecoderModel::LoadWeights(const weights::Checkpoint& checkpoint,
                                       const Options& options, const Progress& progress) {
  const ModelConfig& c = config_;
  rope_.params = MakeRope(c.rope, c.rotary_dim);
  if (c.sliding_rope) {
    sliding_rope_.emplace();
    sliding_rope_->params = MakeRope(*c.sliding_rope, c.rotary_dim);
  }

  WeightLoader loader(checkpoint, backend_, options.weight_dtype);
  for (int i = 0; i < c.num_hidden_layers; ++i) {
    absl::Status status = LoadLayer(loader, absl::StrCat(names_.layers, i, "."));
    if (!status.ok()) return status;
    progress(double(i + 1) / (c.num_hidden_layers + 1));
  }
  LoadStatus load;
  const std::string embedding = names_.embedding;
  const std::string head = c.tie_word_embeddings ? embedding : names_.head;
  if (c.has_final_norm) load(final_norm_, LoadNorm(loader, names_.final_norm));
  load(head_, loader.Linear({{head, c.vocab_size}}, embedding_cols(), false, LinearRole::kHead));
  load(embedding_, loader.Table(embedding + ".weight", c.vocab_size, embedding_cols(),
                                c.tie_word_embeddings ? head_.weight.get() : nullptr));
  if (!load.status().ok()) return load.status();
  if (absl::Status status = LoadRest(loader); !status.ok()) return status;
  progress(1.0);
  weight_bytes_ = loader.packed_bytes();
  return absl::OkStatus();
}

void DecoderModel::Reserve(const Options& options) {
  const ModelConfig& c = config_;
  const int64_t rows = options.max_rows;
  const int64_t q_cols = int64_t{c.num_attention_heads} * c.head_dim;
  work_.hidden = AllocateRows(rows, c.hidden_size);
  work_.normed = AllocateRows(rows, c.hidden_size);
  work_.branch = AllocateRows(rows, c.hidden_size);
  work_.qkv = AllocateRows(rows, q_cols + int64_t{2} * c.num_key_value_heads * c.head_dim);
  work_.attention = AllocateRows(rows, q_cols);
  work_.up = AllocateRows(rows, int64_t{2} * c.intermediate_size);
  work_.activated = AllocateRows(rows, c.intermediate_size);
  work_.last = AllocateRows(max_logit_rows_, c.hidden_size);
  work_.last_normed = AllocateRows(max_logit_rows_, c.hidden_size);
  work_.logits = AllocateRows(max_logit_rows_, c.vocab_size);
  rope_.table = AllocateRows(rows, c.rotary_dim);
  if (sliding_rope_) sliding_rope_->table = AllocateRows(rows, c.rotary_dim);
  backend_.Reserve(options.max_rows,
                   std::max<int64_t>({c.hidden_size, c.intermediate_size, q_cols}),
                   options.max_slots, attention_shape());
}

kernels::AttentionShape DecoderModel::attention_shape() const {
  const double scalar =
      config_.query_pre_attn_scalar > 0 ? config_.query_pre_attn_scalar : config_.head_dim;
  return {config_.num_attention_heads, config_.num_key_value_heads, config_.head_dim,
          static_cast<float>(1.0 / std::sqrt(scalar))};
}

absl::StatusOr<DecoderModel::Norm> DecoderModel::LoadNorm(WeightLoader& loader,
                                                          const std::string& name) {
  Norm norm;
  if (norm_kind_ == NormKind::kRms) {
    auto weight = loader.Vector(name + ".weight", config_.hidden_size, config_.norm_weight_offset);
    if (!weight.ok()) return weight.status();
    norm.weight = *std::move(weight);
    return norm;
  }
  // One without weights is one with weights of one.
  auto weight = loader.VectorOr(name + ".weight", config_.hidden_size, 1.0f);
  if (!weight.ok()) return weight.status();
  auto bias = loader.VectorOr(name + ".bias", config_.hidden_size, 0.0f);
  if (!bias.ok()) return bias.status();
  norm.weight = *std::move(weight);
  norm.bias = *std::move(bias);
  return norm;
}

absl::StatusOr<kernels::Buffer> DecoderModel::LoadHeadNorm(WeightLoader& loader,
                                                           const std::string& name) {
  return loader.Vector(name + ".weight", config_.head_dim, config_.norm_weight_offset);
}

absl::StatusOr<DecoderModel::AttentionBlock> DecoderModel::LoadAttention(WeightLoader& loader,
                                                                         const std::string& prefix,
                                                                         const char* output) {
  const int64_t q_rows = int64_t{config_.num_attention_heads} * config_.head_dim;
  const int64_t kv_rows = int64_t{config_.num_key_value_heads} * config_.head_dim;
  auto qkv = loader.Linear(
      {{prefix + "q_proj", q_rows}, {prefix + "k_proj", kv_rows}, {prefix + "v_proj", kv_rows}},
      config_.hidden_size, config_.attention_bias || config_.qkv_bias);
  if (!qkv.ok()) return qkv.status();
  auto out =
      loader.Linear({{prefix + output, config_.hidden_size}}, q_rows, config_.attention_bias);
  if (!out.ok()) return out.status();
  AttentionBlock block;
  block.qkv = *std::move(qkv);
  block.output = *std::move(out);
  return block;
}

absl::StatusOr<DecoderModel::MlpBlock> DecoderModel::LoadGatedMlp(WeightLoader& loader,
                                                                  const std::string& prefix) {
  const ModelConfig& c = config_;
  auto up = loader.Linear(
      {{prefix + "gate_proj", c.intermediate_size}, {prefix + "up_proj", c.intermediate_size}},
      c.hidden_size, c.mlp_bias);
  if (!up.ok()) return up.status();
  auto down =
      loader.Linear({{prefix + "down_proj", c.hidden_size}}, c.intermediate_size, c.mlp_bias);
  if (!down.ok()) return down.status();
  return MlpBlock{*std::move(up), *std::move(down), true};
}

absl::StatusOr<DecoderModel::MlpBlock> DecoderModel::LoadPlainMlp(WeightLoader& loader,
                                                                  const std::string& up_name,
                                                                  const std::string& down_name,
                                                                  bool bias) {
  const ModelConfig& c = config_;
  auto up = loader.Linear({{up_name, c.intermediate_size}}, c.hidden_size, bias);
  if (!up.ok()) return up.status();
  auto down = loader.Linear({{down_name, c.hidden_size}}, c.intermediate_size, bias);
  if (!down.ok()) return down.status();
  return MlpBlock{*std::move(up), *std::move(down), false};
}

void DecoderModel::Embed(const kernels::Batch& batch) {
  backend_.Embed(*embedding_, batch.token_ids, embedding_scale_, hidden());
}

void DecoderModel::Forward(const kernels::Batch& batch, kernels::KvStore& kv) {
  batch_ = &batch;
  kv_ = &kv;
  rows_ = batch.num_rows();
  Embed(batch);
  for (Rope* rope : {&rope_, sliding_rope_ ? &*sliding_rope_ : nullptr}) {
    if (rope == nullptr) continue;
    backend_.ComputeRope(rope->params, batch.positions, Rows(rope->table, config_.rotary_dim));
  }
  for (int i = 0; i < config_.num_hidden_layers; ++i) RunLayer(i);
}

void DecoderModel::RunNorm(const Norm& norm, Matrix x, Matrix y) {
  const auto eps = static_cast<float>(config_.norm_eps);
  if (norm_kind_ == NormKind::kRms) {
    backend_.RmsNorm(x, norm.weight, eps, y);
  } else {
    backend_.LayerNorm(x, norm.weight, *norm.bias, eps, y);
  }
}

void DecoderModel::RunAttention(const AttentionBlock& block, int layer, Matrix x, bool accumulate,
                                Matrix y) {
  const kernels::AttentionShape shape = attention_shape();
  const Matrix qkv = Rows(work_.qkv, block.qkv.weight->rows());
  const Matrix attention = Rows(work_.attention, block.output.weight->cols());
  backend_.Linear(x, *block.qkv.weight, block.qkv.bias_or_null(), false, qkv);
  if (block.query_norm) {
    backend_.RmsNormHeads(shape, *block.query_norm, *block.key_norm,
                          static_cast<float>(config_.norm_eps), qkv);
  }
  backend_.RopeAndStore(*batch_, shape, config_.rotary_dim,
                        Rows(RopeOf(layer).table, config_.rotary_dim), qkv, layer, *kv_);
  backend_.Attention(*batch_, shape, layer, qkv, *kv_, attention);
  backend_.Linear(attention, *block.output.weight, block.output.bias_or_null(), accumulate, y);
}

void DecoderModel::RunMlp(const MlpBlock& block, Matrix x, bool accumulate, Matrix y) {
  const Matrix up = Rows(work_.up, block.up.weight->rows());
  Matrix activated = up;
  if (block.gated) {
    activated = Rows(work_.activated, config_.intermediate_size);
    backend_.GatedLinear(activation_, x, *block.up.weight, block.up.bias_or_null(), up, activated);
  } else {
    backend_.Linear(x, *block.up.weight, block.up.bias_or_null(), false, up);
    backend_.Activate(activation_, up);
  }
  backend_.Linear(activated, *block.down.weight, block.down.bias_or_null(), accumulate, y);
}

Matrix DecoderModel::Logits(std::span<const int32_t> rows) {
  const auto count = static_cast<int64_t>(rows.size());
  HYDRANT_CHECK(count <= max_logit_rows_);
  Matrix last{work_.last.data(), count, config_.hidden_size};
  backend_.GatherRows(hidden(), rows, last);
  if (final_norm_) {
    const Matrix normed{work_.last_normed.data(), count, config_.hidden_size};
    RunNorm(*final_norm_, last, normed);
    last = normed;
  }
  const Matrix logits{work_.logits.data(), count, config_.vocab_size};
  backend_.Linear(ProjectOut(last), *head_.weight, head_.bias_or_null(), false, logits);
  return logits;
}

}  // namespace hydrant::engine
