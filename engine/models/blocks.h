// What architectures share: loading of (fused) linear layers and vectors, RoPE frequencies.

#ifndef HYDRANT_ENGINE_MODELS_BLOCKS_H_
#define HYDRANT_ENGINE_MODELS_BLOCKS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/models/model_config.h"
#include "engine/weights/checkpoint.h"
#include "kernels/backend.h"

namespace hydrant::engine {

// A linear layer as it is run.
struct LinearLayer {
  std::unique_ptr<kernels::PackedMatrix> weight;
  std::optional<kernels::Buffer> bias;  // [weight.rows]

  const kernels::Buffer* bias_or_null() const { return bias ? &*bias : nullptr; }
};

// One of the matrices that are stacked, in order, into a fused linear layer: all rows of a tensor,
// or those of its rows that lie `group_stride` apart in groups of `group_rows`.
struct LinearPart {
  std::string name;  // without ".weight" and ".bias"
  int64_t rows = 0;
  int64_t file_rows = 0;   // of the tensor; 0: `rows`
  int64_t group_rows = 0;  // 0: one group
  int64_t group_stride = 0;
  int64_t first_row = 0;  // of the first group

  int64_t FileRow(int64_t row) const {
    if (group_rows == 0) return row;
    return row / group_rows * group_stride + first_row + row % group_rows;
  }
};

// Takes the results of many loads, and keeps the first error.
class LoadStatus {
 public:
  template <typename Target, typename T>
  void operator()(Target& target, absl::StatusOr<T> result) {
    status_.Update(result.status());
    if (result.ok()) target = *std::move(result);
  }
  const absl::Status& status() const { return status_; }

 private:
  absl::Status status_;
};

// What a linear layer is to the model: the head's errors are those of the logits.
enum class LinearRole { kInner, kHead };

// Reads tensors of one checkpoint for one backend and counts what is packed.
//
// int4 takes no bit away that a quantised file has. A matrix is packed in int4 where all of its
// parts are 4-bit tensors of that very form (Q4_0, Q4_1, Q4_K), whose numbers are kept; and, of a
// checkpoint that is not quantised at all (f32, f16, bf16), every matrix but the head. All others,
// as the Q8_0 or Q6_K tensors beside 4-bit ones, are packed in int8.
class WeightLoader {
 public:
  WeightLoader(const weights::Checkpoint& checkpoint, kernels::Backend& backend,
               kernels::WeightDType dtype);

  // [sum of rows, cols]. A bias is used where the checkpoint has one for a part; parts without one
  // then count as zero. `bias_expected` makes a missing one an error.
  absl::StatusOr<LinearLayer> Linear(const std::vector<LinearPart>& parts, int64_t cols,
                                     bool bias_expected, LinearRole role = LinearRole::kInner);
  // [size], each plus `offset`.
  absl::StatusOr<kernels::Buffer> Vector(const std::string& name, int64_t size, double offset = 0);
  // [size], or `value` in each place where the checkpoint has no such tensor.
  absl::StatusOr<kernels::Buffer> VectorOr(const std::string& name, int64_t size, float value);
  // Rows that are looked up, exactly as the file has them. `packed`: what Linear made of this very
  // tensor, if it did.
  absl::StatusOr<std::unique_ptr<kernels::Table>> Table(
      const std::string& name, int64_t rows, int64_t cols,
      const kernels::PackedMatrix* packed = nullptr);

  size_t packed_bytes() const { return packed_bytes_; }

 private:
  kernels::Buffer Uploaded(const std::vector<float>& values);

  const weights::Checkpoint& checkpoint_;
  kernels::Backend& backend_;
  kernels::WeightDType dtype_;
  bool quantised_ = false;  // some matrix of the checkpoint is
  size_t packed_bytes_ = 0;
};

// Frequencies of RoPE with its scaling (linear; llama3 as in transformers' modeling_rope_utils),
// for the first `rotary_dim` of each head.
kernels::RopeParams MakeRope(const RopeConfig& config, int32_t rotary_dim);

// "silu", "gelu", "gelu_pytorch_tanh", "relu", ... ; nullopt for a name that is not known.
std::optional<kernels::Activation> ActivationByName(const std::string& name);

}  // namespace hydrant::engine

#endif  // HYDRANT_ENGINE_MODELS_BLOCKS_H_
