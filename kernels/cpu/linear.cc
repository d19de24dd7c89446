#include "kernels/cpu/linear.h"

#include <algorithm>

#include "kernels/check.h"
#include "kernels/cpu/isa/int4_layout.h"
#include "kernels/cpu/round_up.h"
#include "kernels/quantization.h"

namespace hydrant::kernels::cpu {
namespace {

// Activation rows are padded to this many, so that kernels may read whole groups of them.
constexpr int64_t kRowGroup = 32;
// Preparing fewer rows than this takes less time than waking the team.
constexpr int64_t kSerialRows = 4;
// Claims are at least a few for each thread, so that the last one does not keep the others waiting.
constexpr int64_t kClaimsPerThread = 8;
// Up to this many rows memory bounds the work, and a claim is as many neighbouring tiles as may be:
// memory is read ahead within them.
constexpr int64_t kStreamedRows = 128;
constexpr int64_t kMinClaimRows = 96;

}  // namespace

LinearRunner::LinearRunner(const KernelTable& kernels, ThreadPool& pool)
    : kernels_(kernels), pool_(pool) {}

void LinearRunner::Reserve(int max_rows, int64_t max_cols) {
  max_rows_ = RoundUp(max_rows, kRowGroup);
  max_cols_ = RoundUp(max_cols, 64);
  Arena arena;
  activations_ = arena.Cut(max_rows_ * max_cols_ * kernels_.bf16_bytes);
  rotated_ = arena.Cut(pool_.size() * max_cols_ * sizeof(float));
  scales_.assign(max_rows_, 0.0f);
  sums_.assign(max_rows_, 0);
}

int64_t LinearRunner::RowBytes(WeightDType dtype, int64_t padded) const {
  if (dtype == WeightDType::kBF16) return padded * kernels_.bf16_bytes;
  if (dtype == WeightDType::kInt4) return padded / kInt4Group * kInt4XBytes;
  return padded;
}

void LinearRunner::PrepareRow(const Matrix& x, WeightDType dtype, int64_t padded, int64_t row,
                              int member) {
  const float* from = x.f32() + row * x.cols;
  if (dtype == WeightDType::kBF16) {
    kernels_.prepare_bf16(from, x.cols, padded, activations_.data + row * RowBytes(dtype, padded));
    return;
  }
  if (dtype == WeightDType::kInt4) {
    kernels_.quantize_groups(from, x.cols, activations_.data + row * RowBytes(dtype, padded));
    return;
  }
  const auto block = static_cast<int32_t>(HadamardBlock(x.cols));
  const float normalise = HadamardNormalise(block);
  scales_[row] =
      kernels_.quantize(from, x.cols, padded, block, normalise,
                        reinterpret_cast<float*>(rotated_.data) + member * max_cols_,
                        reinterpret_cast<int8_t*>(activations_.data + row * padded), &sums_[row]);
}

void LinearRunner::Run(Matrix x, const PackedWeights& w, const float* bias, bool accumulate,
                       Matrix y) {
  HYDRANT_CHECK(x.cols == w.cols() && y.cols == w.rows() && x.rows == y.rows);
  if (x.rows == 0) return;
  const int64_t padded = w.padded_cols();
  LinearArgs args = {.weights = w.tiles(),
                     .tile_bytes = w.tile_bytes(),
                     .rows = w.rows(),
                     .cols = padded,
                     .w_scale = w.scales(),
                     .bias = bias,
                     .accumulate = accumulate,
                     .x = reinterpret_cast<const uint8_t*>(x.f32()),
                     .x_stride = x.cols * static_cast<int64_t>(sizeof(float)),
                     .x_scale = scales_.data(),
                     .x_sum = sums_.data(),
                     .y = y.f32(),
                     .y_stride = y.cols};
  auto* kernel = kernels_.linear_f32;
  if (w.dtype() != WeightDType::kF32) {
    HYDRANT_CHECK(x.rows <= max_rows_ && padded <= max_cols_);
    const int64_t grain = x.rows <= kSerialRows ? x.rows : 1;
    pool_.ForEach(x.rows, grain,
                  [&](int64_t row, int member) { PrepareRow(x, w.dtype(), padded, row, member); });
    kernel = w.dtype() == WeightDType::kBF16   ? kernels_.linear_bf16
             : w.dtype() == WeightDType::kInt4 ? kernels_.linear_int4
                                               : kernels_.linear_int8;
    args.x = activations_.data;
    args.x_stride = RowBytes(w.dtype(), padded);
  }

  // Cut into row chunks (only where tiles alone are too few claims) by groups of tiles.
  const int64_t tiles = w.num_tiles();
  const int64_t wanted = kClaimsPerThread * pool_.size();
  int64_t chunk = x.rows;
  while (chunk > kMinClaimRows && tiles * ((x.rows + chunk - 1) / chunk) < wanted) {
    chunk = RoundUp((chunk + 1) / 2, kRowGroup);
  }
  const int64_t chunks = (x.rows + chunk - 1) / chunk;
  const int64_t group = x.rows <= kStreamedRows ? std::max<int64_t>(1, tiles / wanted) : 1;
  const int64_t groups = (tiles + group - 1) / group;
  pool_.ForEach(groups * chunks, 1, [&](int64_t claim, int) {
    const int64_t tile = claim / chunks * group;
    const int64_t row = claim % chunks * chunk;
    kernel(args, tile, std::min(tile + group, tiles), row, std::min(row + chunk, x.rows));
  });
}

}  // namespace hydrant::kernels::cpu
