// A model: packed weights and the order of ops between a token id and its logits. One file an
// architecture (llama.cc), on the shared blocks of blocks.h.

#ifndef HYDRANT_ENGINE_MODELS_MODEL_H_
#define HYDRANT_ENGINE_MODELS_MODEL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "engine/models/model_config.h"
#include "engine/weights/checkpoint.h"
#include "kernels/backend.h"

namespace hydrant::engine {

class Model {
 public:
  struct Options {
    kernels::WeightDType weight_dtype = kernels::WeightDType::kInt8;
    int32_t max_rows = 512;    // of one pass
    int64_t max_slots = 4096;  // the longest attention length
  };
  // Told the share of the weights that is packed, 0 to 1.
  using Progress = std::function<void(double ratio)>;

  // Packs the weights of `checkpoint` for `backend`; both outlive the model (embedding rows may
  // be read from the checkpoint as they are needed). UNIMPLEMENTED names an unknown architecture.
  static absl::StatusOr<std::unique_ptr<Model>> Load(const weights::Checkpoint& checkpoint,
                                                     kernels::Backend& backend,
                                                     const Options& options,
                                                     const Progress& progress);
  virtual ~Model() = default;

  virtual const ModelConfig& config() const = 0;
  virtual kernels::AttentionShape attention_shape() const = 0;
  virtual size_t weight_bytes() const = 0;

  // One pass: stores the keys and values of every row, and keeps the hidden states for Logits.
  virtual void Forward(const kernels::Batch& batch, kernels::KvStore& kv) = 0;
  // Logits are computed for at most this many rows at a time.
  virtual int max_logit_rows() const = 0;
  // Logits [rows.size(), vocab_size] of rows of the last pass, in the backend's memory; valid until
  // the next call.
  virtual kernels::Matrix Logits(std::span<const int32_t> rows) = 0;
};

}  // namespace hydrant::engine

#endif  // HYDRANT_ENGINE_MODELS_MODEL_H_
