// y = x W^T in the four numeric paths of WeightDType.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/status/status.h"
#include "kernels/bfloat16.h"
#include "kernels/check.h"
#include "kernels/float16.h"
#include "kernels/int4_source.h"
#include "kernels/quantization.h"
#include "kernels/reference/reference_backend.h"
#include "kernels/shapes.h"

namespace hydrant::kernels {
namespace {

// Weights in row order. For f32 and bf16 `values` holds them (bf16 already rounded); for int8
// `quantised` does, with one scale for each row; for int4 `levels` does, with a range for each
// group.
class ReferenceMatrix final : public PackedMatrix {
 public:
  ReferenceMatrix(int64_t rows, int64_t cols, WeightDType dtype)
      : PackedMatrix(rows, cols), dtype(dtype) {}

  size_t bytes() const override {
    return values.size() * sizeof(float) + quantised.size() + scales.size() * sizeof(float) +
           levels.size() + ranges.size() * sizeof(Int4Range);
  }

  const WeightDType dtype;
  std::vector<float> values;      // [rows, cols]
  std::vector<int8_t> quantised;  // [rows, cols]
  std::vector<float> scales;      // [rows]
  std::vector<uint8_t> levels;    // [rows, cols]
  std::vector<Int4Range> ranges;  // [rows, Int4Groups(cols)]
};

float Dot(const float* a, const float* b, int64_t cols) {
  float sum = 0.0f;
  for (int64_t c = 0; c < cols; ++c) sum += a[c] * b[c];
  return sum;
}

template <typename Number>
int32_t Dot(const int8_t* a, const Number* b, int64_t cols) {
  int32_t sum = 0;
  for (int64_t c = 0; c < cols; ++c) sum += int32_t{a[c]} * int32_t{b[c]};
  return sum;
}

// One output of int4: quantization.h. x is quantised, with a scale for each group.
float DotGroups(const int8_t* x, const float* x_scales, const uint8_t* levels,
                const Int4Range* ranges, int64_t cols) {
  float sum = 0.0f;
  for (int64_t begin = 0; begin < cols; begin += kInt4Group, ++x_scales, ++ranges) {
    const int64_t count = std::min(kInt4Group, cols - begin);
    const int32_t dot = Dot(x + begin, levels + begin, count);
    const int32_t total = std::accumulate(x + begin, x + begin + count, 0);
    sum = std::fma(*x_scales * F16ToFloat(ranges->scale), static_cast<float>(dot), sum);
    sum = std::fma(F16ToFloat(ranges->zero), *x_scales * static_cast<float>(total), sum);
  }
  return sum;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PackedMatrix>> ReferenceBackend::Pack(const MatrixSource& source,
                                                                     WeightDType dtype) {
  const int64_t rows = source.rows;
  const int64_t cols = source.cols;
  if (absl::Status status = CheckMatrix(source, dtype); !status.ok()) return status;
  auto matrix = std::make_unique<ReferenceMatrix>(rows, cols, dtype);
  if (dtype == WeightDType::kInt8) {
    matrix->quantised.resize(rows * cols);
    matrix->scales.resize(rows);
    std::vector<float> values(cols);
    for (int64_t row = 0; row < rows; ++row) {
      source.read_row(row, values.data());
      HadamardRotate(values.data(), cols);
      matrix->scales[row] =
          QuantizeInt8(values.data(), cols, matrix->quantised.data() + row * cols);
    }
  } else if (dtype == WeightDType::kInt4) {
    matrix->levels.resize(rows * cols);
    matrix->ranges.resize(rows * Int4Groups(cols));
    std::vector<float> values(cols);
    for (int64_t row = 0; row < rows; ++row) {
      uint8_t* levels = matrix->levels.data() + row * cols;
      Int4Range* ranges = matrix->ranges.data() + row * Int4Groups(cols);
      absl::Status status = ReadInt4Row(source, row, values.data(), levels, ranges);
      if (!status.ok()) return status;
    }
  } else {
    matrix->values.resize(rows * cols);
    for (int64_t row = 0; row < rows; ++row) {
      source.read_row(row, matrix->values.data() + row * cols);
    }
    if (dtype == WeightDType::kBF16) {
      for (float& value : matrix->values) value = RoundToBF16(value);
    }
  }
  return matrix;
}

void ReferenceBackend::Linear(Matrix x, const PackedMatrix& packed, const Buffer* bias,
                              bool accumulate, Matrix y) {
  const auto* w = dynamic_cast<const ReferenceMatrix*>(&packed);
  HYDRANT_CHECK(w != nullptr);
  const int64_t cols = x.cols;
  HYDRANT_CHECK(w->cols() == cols && y.cols == w->rows() && y.rows == x.rows);
  HYDRANT_CHECK(bias == nullptr || bias->bytes() == w->rows() * sizeof(float));
  HYDRANT_CHECK(cols <= static_cast<int64_t>(activation_row_.size()));
  const float* b = bias == nullptr ? nullptr : static_cast<const float*>(bias->data());

  for (int64_t row = 0; row < x.rows; ++row) {
    float* in = activation_row_.data();
    std::copy(x.f32() + row * cols, x.f32() + (row + 1) * cols, in);
    float x_scale = 1.0f;
    if (w->dtype == WeightDType::kBF16) {
      for (int64_t c = 0; c < cols; ++c) in[c] = RoundToBF16(in[c]);
    } else if (w->dtype == WeightDType::kInt8) {
      HadamardRotate(in, cols);
      x_scale = QuantizeInt8(in, cols, activation_int8_.data());
    } else if (w->dtype == WeightDType::kInt4) {
      for (int64_t group = 0; group < Int4Groups(cols); ++group) {
        const int64_t begin = group * kInt4Group;
        activation_scales_[group] = QuantizeInt8(in + begin, std::min(kInt4Group, cols - begin),
                                                 activation_int8_.data() + begin);
      }
    }
    for (int64_t n = 0; n < w->rows(); ++n) {
      float value;
      if (w->dtype == WeightDType::kInt8) {
        const int32_t sum = Dot(activation_int8_.data(), w->quantised.data() + n * cols, cols);
        value = static_cast<float>(sum) * x_scale * w->scales[n];
      } else if (w->dtype == WeightDType::kInt4) {
        value =
            DotGroups(activation_int8_.data(), activation_scales_.data(),
                      w->levels.data() + n * cols, w->ranges.data() + n * Int4Groups(cols), cols);
      } else {
        value = Dot(in, w->values.data() + n * cols, cols);
      }
      if (b != nullptr) value += b[n];
      float& out = y.f32()[row * y.cols + n];
      out = accumulate ? out + value : value;
    }
  }
}

}  // namespace hydrant::kernels
