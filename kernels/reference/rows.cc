// Ops that look at one row at a time.

#include <cmath>
#include <numbers>
#include <utility>

#include "kernels/check.h"
#include "kernels/reference/reference_backend.h"
#include "kernels/source_table.h"

namespace hydrant::kernels {
namespace {

float Activated(Activation activation, float x) {
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

const float* Values(const Buffer& buffer, int64_t count) {
  HYDRANT_CHECK(buffer.bytes() == count * sizeof(float));
  return static_cast<const float*>(buffer.data());
}

void RmsNormRow(const float* x, const float* weight, float eps, int64_t cols, float* y) {
  float sum = 0.0f;
  for (int64_t c = 0; c < cols; ++c) sum += x[c] * x[c];
  const float inverse_rms = 1.0f / std::sqrt(sum / static_cast<float>(cols) + eps);
  for (int64_t c = 0; c < cols; ++c) y[c] = x[c] * inverse_rms * weight[c];
}

}  // namespace

absl::StatusOr<std::unique_ptr<Table>> ReferenceBackend::MakeTable(MatrixSource source,
                                                                   const PackedMatrix*) {
  return std::make_unique<SourceTable>(std::move(source));
}

void ReferenceBackend::Embed(const Table& table, std::span<const int32_t> ids, float scale,
                             Matrix y) {
  HYDRANT_CHECK(y.rows == static_cast<int64_t>(ids.size()) && y.cols == table.cols());
  for (int64_t row = 0; row < y.rows; ++row) {
    float* out = y.f32() + row * y.cols;
    SourceTable::From(table).Read(ids[row], out);
    for (int64_t c = 0; c < y.cols; ++c) out[c] *= scale;
  }
}

void ReferenceBackend::RmsNorm(Matrix x, const Buffer& weight, float eps, Matrix y) {
  HYDRANT_CHECK(y.rows == x.rows && y.cols == x.cols);
  const float* w = Values(weight, x.cols);
  for (int64_t row = 0; row < x.rows; ++row) {
    RmsNormRow(x.f32() + row * x.cols, w, eps, x.cols, y.f32() + row * y.cols);
  }
}

void ReferenceBackend::LayerNorm(Matrix x, const Buffer& weight, const Buffer& bias, float eps,
                                 Matrix y) {
  HYDRANT_CHECK(y.rows == x.rows && y.cols == x.cols);
  const float* w = Values(weight, x.cols);
  const float* b = Values(bias, x.cols);
  for (int64_t row = 0; row < x.rows; ++row) {
    const float* in = x.f32() + row * x.cols;
    float* out = y.f32() + row * y.cols;
    float sum = 0.0f;
    for (int64_t c = 0; c < x.cols; ++c) sum += in[c];
    const float mean = sum / static_cast<float>(x.cols);
    float squares = 0.0f;
    for (int64_t c = 0; c < x.cols; ++c) squares += (in[c] - mean) * (in[c] - mean);
    const float inverse = 1.0f / std::sqrt(squares / static_cast<float>(x.cols) + eps);
    for (int64_t c = 0; c < x.cols; ++c) out[c] = (in[c] - mean) * inverse * w[c] + b[c];
  }
}

void ReferenceBackend::RmsNormHeads(const AttentionShape& shape, const Buffer& query_weight,
                                    const Buffer& key_weight, float eps, Matrix qkv) {
  HYDRANT_CHECK(qkv.cols == int64_t{shape.heads + 2 * shape.kv_heads} * shape.head_dim);
  const float* q = Values(query_weight, shape.head_dim);
  const float* k = Values(key_weight, shape.head_dim);
  for (int64_t row = 0; row < qkv.rows; ++row) {
    float* at = qkv.f32() + row * qkv.cols;
    for (int head = 0; head < shape.heads + shape.kv_heads; ++head, at += shape.head_dim) {
      RmsNormRow(at, head < shape.heads ? q : k, eps, shape.head_dim, at);
    }
  }
}

void ReferenceBackend::Add(Matrix x, Matrix y) {
  HYDRANT_CHECK(y.rows == x.rows && y.cols == x.cols);
  for (int64_t i = 0; i < x.rows * x.cols; ++i) y.f32()[i] += x.f32()[i];
}

void ReferenceBackend::Activate(Activation activation, Matrix x) {
  for (int64_t i = 0; i < x.rows * x.cols; ++i) x.f32()[i] = Activated(activation, x.f32()[i]);
}

void ReferenceBackend::GatedActivation(Activation activation, Matrix x, Matrix y) {
  HYDRANT_CHECK(y.rows == x.rows && x.cols == 2 * y.cols);
  for (int64_t row = 0; row < x.rows; ++row) {
    const float* gate = x.f32() + row * x.cols;
    const float* up = gate + y.cols;
    float* out = y.f32() + row * y.cols;
    for (int64_t c = 0; c < y.cols; ++c) out[c] = Activated(activation, gate[c]) * up[c];
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
