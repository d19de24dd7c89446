#include "kernels/shapes.h"

#include "absl/strings/str_cat.h"
#include "kernels/check.h"
#include "kernels/quantization.h"

namespace hydrant::kernels {

absl::Status CheckMatrix(const MatrixSource& source, WeightDType dtype) {
  if (source.rows < 1 || source.cols < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "matrix of ", source.rows, " rows and ", source.cols, " columns: both must be at least 1"));
  }
  if (dtype == WeightDType::kInt8 && source.cols > kMaxInt8Cols) {
    return absl::InvalidArgumentError(absl::StrCat("matrix of ", source.cols,
                                                   " columns: int8 weights have at most ",
                                                   kMaxInt8Cols, " columns"));
  }
  return absl::OkStatus();
}

absl::Status CheckGeometry(const KvGeometry& geometry) {
  if (geometry.layers < 1 || geometry.kv_heads < 1 || geometry.head_dim < 1 ||
      geometry.num_blocks < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("KV cache of ", geometry.layers, " layers, ", geometry.kv_heads,
                     " KV heads, head size ", geometry.head_dim, ", ", geometry.num_blocks,
                     " blocks: layers, heads and head size must be at least 1, blocks at least 0"));
  }
  if (!geometry.windows.empty() && geometry.windows.size() != size_t(geometry.layers)) {
    return absl::InvalidArgumentError(absl::StrCat("KV cache of ", geometry.layers, " layers has ",
                                                   geometry.windows.size(), " sliding windows"));
  }
  for (const int32_t window : geometry.windows) {
    if (window < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("sliding window of ", window, " tokens: must be at least 0"));
    }
  }
  return absl::OkStatus();
}

void CheckRope(const RopeParams& rope, std::span<const int32_t> positions, const Matrix& table) {
  HYDRANT_CHECK(rope.rotary_dim >= 0 && rope.rotary_dim % 2 == 0);
  HYDRANT_CHECK(static_cast<int64_t>(rope.inv_freq.size()) == rope.rotary_dim / 2);
  HYDRANT_CHECK(table.rows == static_cast<int64_t>(positions.size()));
  HYDRANT_CHECK(table.cols == rope.rotary_dim);
}

void CheckDraws(const Matrix& logits, std::span<const TokenDraw> draws,
                std::span<const int32_t> tokens) {
  HYDRANT_CHECK(tokens.size() == draws.size());
  HYDRANT_CHECK(logits.cols > 0);
  for (const TokenDraw& draw : draws) {
    HYDRANT_CHECK(draw.row >= 0 && draw.row < logits.rows);
    HYDRANT_CHECK(draw.temperature >= 0.0f && draw.top_k >= 0);
    HYDRANT_CHECK(draw.top_p >= 0.0f && draw.top_p <= 1.0f);
    HYDRANT_CHECK(draw.min_p >= 0.0f && draw.min_p <= 1.0f);
    HYDRANT_CHECK(draw.u >= 0.0 && draw.u < 1.0);
    for (const LogitChange& change : draw.changes) {
      HYDRANT_CHECK(change.id >= 0 && change.id < logits.cols);
    }
  }
}

}  // namespace hydrant::kernels
