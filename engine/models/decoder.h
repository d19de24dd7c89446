// What decoder-only transformers share: the embedding, the loop over layers, the logits, memory for
// activations, and the blocks that a layer is put together from. An architecture is a subclass of
// one page that loads its layers and says in what order a layer's blocks run.
//
// To add an architecture:
//   1. engine/models/NAME.cc: a subclass as in llama.cc; its maker goes into decoders.h and into
//   the
//      table of model.cc.
//   2. weights/hf_family.cc: what config.json says of it, and what silence means there.
//   3. weights/gguf_family.cc: how GGUF names its keys and tensors, if it does.
//   4. tests/data/golden: a small random checkpoint of it with the tokens and logits of
//   transformers
//      (README there); its name goes into golden_test.cc, which then tests it on every backend.

#ifndef HYDRANT_ENGINE_MODELS_DECODER_H_
#define HYDRANT_ENGINE_MODELS_DECODER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/models/blocks.h"
#include "engine/models/model.h"

namespace hydrant::engine {

class DecoderModel : public Model {
 public:
  // Loads the weights and reserves memory: called once, by Model::Load.
  absl::Status Init(const weights::Checkpoint& checkpoint, const Options& options,
                    const Progress& progress);

  const ModelConfig& config() const final { return config_; }
  kernels::AttentionShape attention_shape() const final;
  size_t weight_bytes() const final { return weight_bytes_; }
  void Forward(const kernels::Batch& batch, kernels::KvStore& kv) final;
  int max_logit_rows() const final { return max_logit_rows_; }
  kernels::Matrix Logits(std::span<const int32_t> rows) final;

 protected:
  // What an architecture calls its tensors.
  struct Names {
    const char* layers;      // "model.layers.", before a layer's number
    const char* embedding;   // "model.embed_tokens"
    const char* final_norm;  // "model.norm"
    const char* head;        // "lm_head", unless the embedding is tied to it
  };
  enum class NormKind { kRms, kLayer };

  DecoderModel(const ModelConfig& config, kernels::Backend& backend, Names names,
               NormKind norm_kind)
      : config_(config), backend_(backend), names_(names), norm_kind_(norm_kind) {}

  // ---- what an architecture says ----

  // Tensors of a layer start with `prefix` ("model.layers.0.").
  virtual absl::Status LoadLayer(WeightLoader& loader, const std::string& prefix) = 0;
  // hidden() in, hidden() out.
  virtual void RunLayer(int index) = 0;
  // Beside the embedding, the final norm and the head.
  virtual absl::Status LoadRest(WeightLoader& loader) { return absl::OkStatus(); }
  // Token ids to hidden(); here: rows of the embedding times `embedding_scale_`.
  virtual void Embed(const kernels::Batch& batch);
  // Between the final norm and the head, in place of `rows`; here: nothing.
  virtual kernels::Matrix ProjectOut(kernels::Matrix rows) { return rows; }

  // ---- blocks ----

  struct Norm {
    kernels::Buffer weight;
    std::optional<kernels::Buffer> bias;  // of a LayerNorm
  };
  struct AttentionBlock {
    LinearLayer qkv, output;
    std::optional<kernels::Buffer> query_norm, key_norm;  // RMSNorm of each head, before RoPE
  };
  // down(act(gate(x)) * up(x)) or down(act(up(x))).
  struct MlpBlock {
    LinearLayer up;  // gate, then up, where it is gated
    LinearLayer down;
    bool gated = false;
  };

  absl::StatusOr<Norm> LoadNorm(WeightLoader& loader, const std::string& name);
  // RMSNorm weights alone, [size].
  absl::StatusOr<kernels::Buffer> LoadHeadNorm(WeightLoader& loader, const std::string& name);
  // Of prefix + "q_proj", "k_proj", "v_proj" and `output`. Here and below: biases where the
  // checkpoint has them; a missing one is an error where the config wants it.
  absl::StatusOr<AttentionBlock> LoadAttention(WeightLoader& loader, const std::string& prefix,
                                               const char* output);
  // Of prefix + "gate_proj", "up_proj", "down_proj".
  absl::StatusOr<MlpBlock> LoadGatedMlp(WeightLoader& loader, const std::string& prefix);
  // Of the names `up` and `down`.
  absl::StatusOr<MlpBlock> LoadPlainMlp(WeightLoader& loader, const std::string& up,
                                        const std::string& down, bool bias);

  // y may be x.
  void RunNorm(const Norm& norm, kernels::Matrix x, kernels::Matrix y);
  // y = attention(x) or y += attention(x), with the keys and values of `layer`.
  void RunAttention(const AttentionBlock& block, int layer, kernels::Matrix x, bool accumulate,
                    kernels::Matrix y);
  void RunMlp(const MlpBlock& block, kernels::Matrix x, bool accumulate, kernels::Matrix y);

  // Of this pass, [rows, hidden_size]: the residual stream, a block's input, and one more.
  kernels::Matrix hidden() const { return Rows(work_.hidden, config_.hidden_size); }
  kernels::Matrix normed() const { return Rows(work_.normed, config_.hidden_size); }
  kernels::Matrix branch() const { return Rows(work_.branch, config_.hidden_size); }
  // The first rows of `buffer` that belong to this pass.
  kernels::Matrix Rows(const kernels::Buffer& buffer, int64_t cols) const {
    return {buffer.data(), rows_, cols};
  }
  kernels::Buffer AllocateRows(int64_t rows, int64_t cols) {
    return backend_.Allocate(rows * cols * backend_.activation_bytes());
  }
  int64_t embedding_cols() const { return config_.embedding_size(); }
  kernels::Backend& backend() { return backend_; }
  const kernels::Table& embedding() const { return *embedding_; }

  float embedding_scale_ = 1.0f;

 private:
  // Activations of one pass, [max_rows, ...]; a pass uses the first rows of each.
  struct Workspace {
    kernels::Buffer hidden, normed, branch, qkv, attention, up, activated, last, last_normed,
        logits;
  };
  // cos and sin of a pass's positions; a second one where layers with a window have their own.
  struct Rope {
    kernels::RopeParams params;
    kernels::Buffer table;
  };

  absl::Status LoadWeights(const weights::Checkpoint& checkpoint, const Options& options,
                           const Progress& progress);
  void Reserve(const Options& options);
  const Rope& RopeOf(int layer) const {
    return sliding_rope_ && config_.window(layer) > 0 ? *sliding_rope_ : rope_;
  }

  const ModelConfig config_;
  kernels::Backend& backend_;
  const Names names_;
  const NormKind norm_kind_;
  kernels::Activation activation_ = kernels::Activation::kSilu;
  Rope rope_;
  std::optional<Rope> sliding_rope_;
  std::optional<Norm> final_norm_;
  LinearLayer head_;
  std::unique_ptr<kernels::Table> embedding_;  // may have its rows in head_
  Workspace work_;
  size_t weight_bytes_ = 0;
  int max_logit_rows_ = 0;
  // Of this pass.
  const kernels::Batch* batch_ = nullptr;
  kernels::KvStore* kv_ = nullptr;
  int64_t rows_ = 0;
};

}  // namespace hydrant::engine

#endif  // HYDRANT_ENGINE_MODELS_DECODER_H_
