// Ops that look at one row at a time.

#include <cmath>
#include <numbers>

#include "kernels/check.h"
#include "kernels/reference/reference_backend.h"

namespace hydrant::kernels {
namespace {

float Activate(Activation activation, float x) {
  switch (activation) {
    case Activation::kSilu:
      return x / (1.0f + std::exp(-x));
    case Activation::kGelu:
      return 0.5f * x * (1.0f + std::erf(x * (1.0f / std::numbers::sqrt2_v<float>)));
    case Activation::kGeluTanh: {
      const float c = std::sqrt(2.0f / std::numbers::pi_v<float>);
      return 0.5f * x * (1.0f + std::tanh(c * (x + 0.044715f * x * x * x)));
    }
    case Activation::kRelu:
      return x > 0.0f ? x : 0.0f;
  }
  HYDRANT_CHECK(false);
}

}  // namespace

void ReferenceBackend::Embed(const MatrixSource& table, std::span<const int32_t> ids, float scale,
                             Matrix y) {
  HYDRANT_CHECK(y.rows == static_cast<int64_t>(ids.size()) && y.cols == table.cols);
  for (int64_t row = 0; row < y.rows; ++row) {
    HYDRANT_CHECK(ids[row] >= 0 && ids[row] < table.rows);
    float* out = y.f32() + row * y.cols;
    table.read_row(ids[row], out);
    for (int64_t c = 0; c < y.cols; ++c) out[c] *= scale;
  }
}

void ReferenceBackend::RmsNorm(Matrix x, const Buffer& weight, float eps, Matrix y) {
  HYDRANT_CHECK(y.rows == x.rows && y.cols == x.cols);
  HYDRANT_CHECK(weight.bytes() == x.cols * sizeof(float));
  const float* w = static_cast<const float*>(weight.data());
  for (int64_t row = 0; row < x.rows; ++row) {
    const float* in = x.f32() + row * x.cols;
    float* out = y.f32() + row * y.cols;
    float sum = 0.0f;
    for (int64_t c = 0; c < x.cols; ++c) sum += in[c] * in[c];
    const float inverse_rms = 1.0f / std::sqrt(sum / static_cast<float>(x.cols) + eps);
    for (int64_t c = 0; c < x.cols; ++c) out[c] = in[c] * inverse_rms * w[c];
  }
}

void ReferenceBackend::GatedActivation(Activation activation, Matrix x, Matrix y) {
  HYDRANT_CHECK(y.rows == x.rows && x.cols == 2 * y.cols);
  for (int64_t row = 0; row < x.rows; ++row) {
    const float* gate = x.f32() + row * x.cols;
    const float* up = gate + y.cols;
    float* out = y.f32() + row * y.cols;
    for (int64_t c = 0; c < y.cols; ++c) out[c] = Activate(activation, gate[c]) * up[c];
  }
}

void ReferenceBackend::GatherRows(Matrix x, std::span<const int32_t> rows, Matrix y) {
  HYDRANT_CHECK(y.rows == static_cast<int64_t>(rows.size()) && y.cols == x.cols);
  for (int64_t row = 0; row < y.rows; ++row) {
    HYDRANT_CHECK(rows[row] >= 0 && rows[row] < x.rows);
    const float* in = x.f32() + rows[row] * x.cols;
    std::copy(in, in + x.cols, y.f32() + row * y.cols);
  }
}

}  // namespace hydrant::kernels
