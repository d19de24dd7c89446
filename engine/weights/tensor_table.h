// The part of a checkpoint that is the same for every format: tensors where they lie in their
// mapping, found by name, handed out in Hugging Face's row order.

#ifndef HYDRANT_ENGINE_WEIGHTS_TENSOR_TABLE_H_
#define HYDRANT_ENGINE_WEIGHTS_TENSOR_TABLE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/weights/checkpoint.h"
#include "engine/weights/dequantize.h"

namespace hydrant::engine::weights {

// How the file orders a tensor's rows (elements, for a vector).
enum class RowOrder {
  kSame,               // as Hugging Face does
  kRotaryInterleaved,  // within each head the two halves of the rotary pairs: 0, d/2, 1, d/2 + 1,
                       // ...
  kQkvStacked,  // q of all heads, then k, then v, where Hugging Face has [heads, 3, head_dim]
};

struct StoredTensor {
  std::string name;       // Hugging Face's
  std::string file_name;  // as the file has it
  std::string type;
  int64_t rows = 0;
  int64_t cols = 0;
  const uint8_t* data = nullptr;
  int64_t row_bytes = 0;
  DequantizeRow dequantize = nullptr;    // nullptr: of a type that cannot be read
  ReadInt4Groups read_groups = nullptr;  // nullptr: its numbers are not those of int4
  RowOrder order = RowOrder::kSame;
  int64_t head_dim = 0;  // of the heads that a row order speaks of
};

// Fill it first: views are valid until the next Add, and as long as the table.
class TensorTable {
 public:
  // `path`: of the checkpoint, for messages.
  explicit TensorTable(std::string path) : path_(std::move(path)) {}

  // INVALID_ARGUMENT when there is one of that name already, or its rows are not whole heads.
  absl::Status Add(StoredTensor tensor);

  bool Has(std::string_view name) const { return index_.contains(std::string(name)); }
  // As Checkpoint::Tensor; INVALID_ARGUMENT too when its type cannot be read.
  absl::StatusOr<TensorView> Find(std::string_view name, int64_t rows, int64_t cols) const;
  // All that can be read, in the order they were added.
  std::vector<TensorView> All() const;
  int64_t num_parameters() const;

 private:
  std::string path_;
  std::vector<StoredTensor> tensors_;
  std::unordered_map<std::string, size_t> index_;
};

}  // namespace hydrant::engine::weights

#endif  // HYDRANT_ENGINE_WEIGHTS_TENSOR_TABLE_H_
