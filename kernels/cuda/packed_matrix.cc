#include "kernels/cuda/packed_matrix.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/bfloat16.h"
#include "kernels/check.h"
#include "kernels/cuda/linear.h"
#include "kernels/quantization.h"

namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE {
namespace {

absl::Status Validate(const MatrixSource& source, WeightDType dtype) {
  if (source.rows < 1 || source.cols < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "matrix of ", source.rows, " rows and ", source.cols, " columns: both must be at least 1"));
  }
  if (dtype != WeightDType::kF32 && dtype != WeightDType::kBF16 && dtype != WeightDType::kInt8) {
    return absl::InvalidArgumentError(absl::StrCat("the CUDA backend has no weights of dtype ",
                                                   std::string(WeightDTypeName(dtype))));
  }
  if (dtype == WeightDType::kInt8 && source.cols > kMaxInt8Cols) {
    return absl::InvalidArgumentError(absl::StrCat("matrix of ", source.cols,
                                                   " columns: int8 weights have at most ",
                                                   kMaxInt8Cols, " columns"));
  }
  return absl::OkStatus();
}

// One row into its place of a row of tiles; gives the scale of int8.
float PackRow(WeightDType dtype, float* row, int64_t cols, int place,
              std::vector<int8_t>& quantised, uint8_t* tiles) {
  const auto at = [&](int64_t byte) {
    return tiles + byte / kTileBytes * kWeightTileBytes +
           WeightTileOffset(place, static_cast<int>(byte % kTileBytes));
  };
  if (dtype == WeightDType::kInt8) {
    HadamardRotate(row, cols);
    const float scale = QuantizeInt8(row, cols, quantised.data());
    for (int64_t c = 0; c < cols; ++c) std::memcpy(at(c), &quantised[c], 1);
    return scale;
  }
  for (int64_t c = 0; c < cols; ++c) {
    const uint16_t value = FloatToBF16(row[c]);
    std::memcpy(at(2 * c), &value, sizeof(value));
  }
  return 0.0f;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PackedMatrix>> CudaMatrix::Make(const MatrixSource& source,
                                                               WeightDType dtype,
                                                               const Device& device) {
  if (absl::Status status = Validate(source, dtype); !status.ok()) return status;
  std::unique_ptr<CudaMatrix> matrix(new CudaMatrix(source.rows, source.cols, dtype));
  // f32 goes row by row, the others by rows of tiles.
  const bool tiled = dtype != WeightDType::kF32;
  const int64_t stripe_rows = tiled ? kWeightTileOutputs : 1;
  const size_t stripe_bytes =
      tiled ? ColumnTiles(dtype, source.cols) * kWeightTileBytes : source.cols * sizeof(float);
  const int64_t stripes = (source.rows + stripe_rows - 1) / stripe_rows;
  const auto allocate = [&](Buffer& buffer, size_t bytes) {
    buffer = Buffer(device.TryAllocate(bytes), bytes, [](void* memory) { cudaFree(memory); });
    return buffer.data() != nullptr;
  };
  if (!allocate(matrix->values_, stripes * stripe_bytes) ||
      (dtype == WeightDType::kInt8 && !allocate(matrix->scales_, source.rows * sizeof(float)))) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a matrix of ", source.rows, " rows and ", source.cols, " columns needs ",
                     stripes * stripe_bytes, " bytes of device memory, which are not free"));
  }
  std::vector<float> row(source.cols), scales(source.rows);
  std::vector<int8_t> quantised(source.cols);
  std::vector<uint8_t> stripe(stripe_bytes);
  for (int64_t first = 0; first < source.rows; first += stripe_rows) {
    auto* const to =
        static_cast<uint8_t*>(matrix->values_.data()) + first / stripe_rows * stripe_bytes;
    if (!tiled) {
      source.read_row(first, row.data());
      device.CopyIn(to, row.data(), stripe_bytes);
      continue;
    }
    std::fill(stripe.begin(), stripe.end(), uint8_t{0});
    for (int64_t r = first; r < std::min(first + stripe_rows, source.rows); ++r) {
      source.read_row(r, row.data());
      scales[r] = PackRow(dtype, row.data(), source.cols, static_cast<int>(r - first), quantised,
                          stripe.data());
    }
    device.CopyIn(to, stripe.data(), stripe_bytes);
  }
  if (matrix->scales_.data() != nullptr) {
    device.CopyIn(matrix->scales_.data(), scales.data(), scales.size() * sizeof(float));
  }
  return matrix;
}

const CudaMatrix& CudaMatrix::From(const PackedMatrix& matrix) {
  const auto* cuda = dynamic_cast<const CudaMatrix*>(&matrix);
  HYDRANT_CHECK(cuda != nullptr);
  return *cuda;
}

}  // namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE
