#include "engine/weights/tensor_table.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/weights/quote.h"
#include "kernels/check.h"

namespace hydrant::engine::weights {
namespace {

// Where the file has row `row` of Hugging Face's order; `rows` in all.
int64_t FileRow(const StoredTensor& tensor, int64_t row, int64_t rows) {
  const int64_t d = tensor.head_dim;
  switch (tensor.order) {
    case RowOrder::kSame:
      return row;
    case RowOrder::kRotaryInterleaved: {
      // Pair j of a head is (j, j + d/2) there and (2j, 2j + 1) in the file.
      const int64_t within = row % d, half = d / 2;
      return row - within + 2 * (within % half) + within / half;
    }
    case RowOrder::kQkvStacked:
      return row / d % 3 * (rows / 3) + row / (3 * d) * d + row % d;
  }
  HYDRANT_CHECK(false);
}

void ReadRow(const StoredTensor& tensor, int64_t row, float* out) {
  HYDRANT_CHECK(row >= 0 && row < tensor.rows);
  if (tensor.rows > 1 || tensor.order == RowOrder::kSame) {
    const int64_t stored_row = FileRow(tensor, row, tensor.rows);
    tensor.dequantize(tensor.data + stored_row * tensor.row_bytes, tensor.cols, out);
    return;
  }
  std::vector<float> stored(static_cast<size_t>(tensor.cols));
  tensor.dequantize(tensor.data, tensor.cols, stored.data());
  for (int64_t i = 0; i < tensor.cols; ++i) {
    out[i] = stored[static_cast<size_t>(FileRow(tensor, i, tensor.cols))];
  }
}

void ReadGroups(const StoredTensor& tensor, int64_t row, uint8_t* levels,
                kernels::Int4Range* ranges) {
  HYDRANT_CHECK(row >= 0 && row < tensor.rows);
  const int64_t stored_row = FileRow(tensor, row, tensor.rows);
  tensor.read_groups(tensor.data + stored_row * tensor.row_bytes, tensor.cols, levels, ranges);
}

TensorView View(const StoredTensor& tensor) {
  TensorView view = {.name = tensor.name,
                     .file_name = tensor.file_name,
                     .type = tensor.type,
                     .rows = tensor.rows,
                     .cols = tensor.cols,
                     .bytes = tensor.rows * tensor.row_bytes,
                     .read_row = [&tensor](int64_t row, float* out) { ReadRow(tensor, row, out); }};
  // The elements of a vector may be in another order.
  if (tensor.read_groups != nullptr && tensor.rows > 1) {
    view.read_groups = [&tensor](int64_t row, uint8_t* levels, kernels::Int4Range* ranges) {
      ReadGroups(tensor, row, levels, ranges);
    };
  }
  return view;
}

// "'name'", and what the file calls it when that differs.
std::string Describe(const StoredTensor& tensor) {
  if (tensor.name == tensor.file_name) return Quote(tensor.name);
  return absl::StrCat(Quote(tensor.name), " (", Quote(tensor.file_name), " in the file)");
}

}  // namespace

absl::Status TensorTable::Add(StoredTensor tensor) {
  const int64_t rows = tensor.rows > 1 ? tensor.rows : tensor.cols;
  const int64_t head_rows =
      tensor.order == RowOrder::kQkvStacked ? 3 * tensor.head_dim : tensor.head_dim;
  if (tensor.order != RowOrder::kSame && rows % head_rows != 0) {
    return absl::InvalidArgumentError(absl::StrCat(path_, ": tensor ", Describe(tensor), ": ", rows,
                                                   " rows are not whole heads of ", head_rows));
  }
  if (!index_.emplace(tensor.name, tensors_.size()).second) {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ": tensor ", Describe(tensor), " appears twice"));
  }
  tensors_.push_back(std::move(tensor));
  return absl::OkStatus();
}

absl::StatusOr<TensorView> TensorTable::Find(std::string_view name, int64_t rows,
                                             int64_t cols) const {
  const auto found = index_.find(std::string(name));
  if (found == index_.end()) {
    return absl::NotFoundError(absl::StrCat(path_, ": tensor ", Quote(name), " is missing"));
  }
  const StoredTensor& tensor = tensors_[found->second];
  if (tensor.rows != rows || tensor.cols != cols) {
    return absl::InvalidArgumentError(absl::StrCat(path_, ": tensor ", Describe(tensor), " is [",
                                                   tensor.rows, ", ", tensor.cols,
                                                   "]; the model needs [", rows, ", ", cols, "]"));
  }
  if (tensor.dequantize == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(path_, ": tensor ", Describe(tensor),
                                                   " is of type ", tensor.type,
                                                   ", which is not supported for weights"));
  }
  return View(tensor);
}

std::vector<TensorView> TensorTable::All() const {
  std::vector<TensorView> views;
  for (const StoredTensor& tensor : tensors_) {
    if (tensor.dequantize != nullptr) views.push_back(View(tensor));
  }
  return views;
}

int64_t TensorTable::num_parameters() const {
  int64_t count = 0;
  for (const StoredTensor& tensor : tensors_) {
    if (tensor.dequantize != nullptr) count += tensor.rows * tensor.cols;
  }
  return count;
}

}  // namespace hydrant::engine::weights
