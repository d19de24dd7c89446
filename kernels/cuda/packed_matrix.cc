#include "kernels/cuda/packed_matrix.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/bfloat16.h"
#include "kernels/check.h"
#include "kernels/cuda/linear.h"
#include "kernels/int4_source.h"
#include "kernels/quantization.h"
#include "kernels/shapes.h"

namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE {
namespace {

// Rows of a matrix, on their way into the tiles of 16 of them (or, of f32, as they are).
class Packer {
 public:
  Packer(const MatrixSource& source, WeightDType dtype)
      : source_(source),
        dtype_(dtype),
        row_(source.cols),
        quantised_(source.cols),
        levels_(source.cols),
        row_ranges_(Int4Groups(source.cols)),
        stripe_(tiled() ? ColumnTiles(dtype, source.cols) * WeightTileBytes(dtype)
                        : source.cols * sizeof(float)),
        ranges_(dtype == WeightDType::kInt4 ? Int4Groups(source.cols) * kWeightTileOutputs : 0),
        scales_(dtype == WeightDType::kInt8 ? source.rows : 0),
        exact_(dtype == WeightDType::kF32 || dtype == WeightDType::kBF16) {}

  int64_t stripe_rows() const { return tiled() ? kWeightTileOutputs : 1; }
  int64_t stripes() const { return (source_.rows + stripe_rows() - 1) / stripe_rows(); }
  // What PackStripe has made.
  const std::vector<uint8_t>& stripe() const { return stripe_; }
  const std::vector<Int4Range>& ranges() const { return ranges_; }
  const std::vector<float>& scales() const { return scales_; }  // of all stripes so far
  bool exact() const { return exact_; }                         // likewise

  absl::Status PackStripe(int64_t index) {
    std::fill(stripe_.begin(), stripe_.end(), uint8_t{0});
    std::fill(ranges_.begin(), ranges_.end(), Int4Range{});
    const int64_t first = index * stripe_rows();
    for (int64_t row = first; row < std::min(first + stripe_rows(), source_.rows); ++row) {
      const int place = static_cast<int>(row - first);
      if (dtype_ == WeightDType::kInt4) {
        if (absl::Status status = PackInt4(row, place); !status.ok()) return status;
        continue;
      }
      source_.read_row(row, row_.data());
      if (dtype_ == WeightDType::kF32) {
        std::memcpy(stripe_.data(), row_.data(), stripe_.size());
      } else if (dtype_ == WeightDType::kInt8) {
        HadamardRotate(row_.data(), source_.cols);
        scales_[row] = QuantizeInt8(row_.data(), source_.cols, quantised_.data());
        for (int64_t c = 0; c < source_.cols; ++c) std::memcpy(At(place, c), &quantised_[c], 1);
      } else {
        for (int64_t c = 0; c < source_.cols; ++c) {
          const uint16_t value = FloatToBF16(row_[c]);
          exact_ = exact_ &&
                   std::bit_cast<uint32_t>(BF16ToFloat(value)) == std::bit_cast<uint32_t>(row_[c]);
          std::memcpy(At(place, 2 * c), &value, sizeof(value));
        }
      }
    }
    return absl::OkStatus();
  }

 private:
  bool tiled() const { return dtype_ != WeightDType::kF32; }
  uint8_t* At(int place, int64_t byte) {
    return stripe_.data() + byte / kTileBytes * kWeightTileBytes +
           WeightTileOffset(place, static_cast<int>(byte % kTileBytes));
  }
  absl::Status PackInt4(int64_t row, int place) {
    absl::Status status =
        ReadInt4Row(source_, row, row_.data(), levels_.data(), row_ranges_.data());
    if (!status.ok()) return status;
    for (int64_t c = 0; c < source_.cols; ++c) {
      const NibblePlace at =
          PlaceOfNibble(WeightTileOffset(place, static_cast<int>(c % kInt4Group)));
      stripe_[c / kInt4Group * WeightTileBytes(dtype_) + at.byte] |=
          static_cast<uint8_t>(levels_[c] << at.shift);
    }
    for (size_t group = 0; group < row_ranges_.size(); ++group) {
      ranges_[group * kWeightTileOutputs + place] = row_ranges_[group];
    }
    return absl::OkStatus();
  }

  const MatrixSource& source_;
  const WeightDType dtype_;
  std::vector<float> row_;
  std::vector<int8_t> quantised_;
  std::vector<uint8_t> levels_;
  std::vector<Int4Range> row_ranges_;
  std::vector<uint8_t> stripe_;
  std::vector<Int4Range> ranges_;
  std::vector<float> scales_;
  bool exact_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PackedMatrix>> CudaMatrix::Make(const MatrixSource& source,
                                                               WeightDType dtype,
                                                               const Device& device) {
  if (absl::Status status = CheckMatrix(source, dtype); !status.ok()) return status;
  std::unique_ptr<CudaMatrix> matrix(new CudaMatrix(source.rows, source.cols, dtype));
  Packer packer(source, dtype);
  const int64_t stripes = packer.stripes();
  const size_t stripe_bytes = packer.stripe().size();
  const size_t range_bytes = packer.ranges().size() * sizeof(Int4Range);
  const auto allocate = [&](Buffer& buffer, size_t bytes) {
    if (bytes == 0) return true;
    buffer = Buffer(device.TryAllocate(bytes), bytes, [](void* memory) { cudaFree(memory); });
    return buffer.data() != nullptr;
  };
  if (!allocate(matrix->values_, stripes * stripe_bytes) ||
      !allocate(matrix->scales_, packer.scales().size() * sizeof(float)) ||
      !allocate(matrix->ranges_, stripes * range_bytes)) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "a matrix of ", source.rows, " rows and ", source.cols, " columns needs ",
        stripes * (stripe_bytes + range_bytes), " bytes of device memory, which are not free"));
  }
  const auto copy_in = [&](const Buffer& buffer, size_t offset, const auto& values) {
    if (values.empty()) return;
    device.CopyIn(static_cast<uint8_t*>(buffer.data()) + offset, values.data(),
                  values.size() * sizeof(values[0]));
  };
  for (int64_t i = 0; i < stripes; ++i) {
    if (absl::Status status = packer.PackStripe(i); !status.ok()) return status;
    copy_in(matrix->values_, i * stripe_bytes, packer.stripe());
    copy_in(matrix->ranges_, i * range_bytes, packer.ranges());
  }
  copy_in(matrix->scales_, 0, packer.scales());
  matrix->exact_ = packer.exact();
  return matrix;
}

const CudaMatrix& CudaMatrix::From(const PackedMatrix& matrix) {
  const auto* cuda = dynamic_cast<const CudaMatrix*>(&matrix);
  HYDRANT_CHECK(cuda != nullptr);
  return *cuda;
}

}  // namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE
