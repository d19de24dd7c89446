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
// Up to this many rows memory bounds the work, and a claim is as many neighbouring tiles as may be:
// memory is read ahead within them.
constexpr int64_t kStreamedRows = 128;
constexpr int64_t kMinClaimRows = 96;
// Of a claim of a gated layer: its outputs stay in the second cache until they are done with.
constexpr int64_t kGatedRows = 128;
constexpr int64_t kGatedTiles = 2;
// With fewer rows the outputs stay there anyway.
constexpr int64_t kMinGatedRows = 32;

}  // namespace

LinearRunner::LinearRunner(const KernelTable& kernels, ThreadPool& pool)
    : kernels_(kernels), pool_(pool) {}

void LinearRunner::Reserve(int max_rows, int64_t max_cols) {
  max_rows_ = RoundUp(max_rows, kRowGroup);
  max_cols_ = RoundUp(max_cols, 64);
  Arena arena;
  activations_ = arena.Cut(max_rows_ * max_cols_ * kernels_.bf16_bytes);
  rotated_ = arena.Cut(pool_.size() * max_cols_ * sizeof(float));
  const int64_t gated = kGatedRows * 2 * kGatedTiles * kernels_.tile_rows;
  gated_ = arena.Cut(pool_.size() * gated * sizeof(float));
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

LinearArgs LinearRunner::Prepare(Matrix x, const PackedWeights& w, const float* bias) {
  HYDRANT_CHECK(x.cols == w.cols());
  const int64_t padded = w.padded_cols();
  LinearArgs args = {.weights = w.tiles(),
                     .tile_bytes = w.tile_bytes(),
                     .rows = w.rows(),
                     .cols = padded,
                     .w_scale = w.scales(),
                     .bias = bias,
                     .accumulate = false,
                     .x = reinterpret_cast<const uint8_t*>(x.f32()),
                     .x_stride = x.cols * static_cast<int64_t>(sizeof(float)),
                     .x_scale = scales_.data(),
                     .x_sum = sums_.data(),
                     .y = nullptr,
                     .y_stride = 0};
  if (w.dtype() == WeightDType::kF32) return args;
  HYDRANT_CHECK(x.rows <= max_rows_ && padded <= max_cols_);
  const int64_t grain = x.rows <= kSerialRows ? x.rows : pool_.Grain(x.rows);
  pool_.ForEach(x.rows, grain,
                [&](int64_t row, int member) { PrepareRow(x, w.dtype(), padded, row, member); });
  args.x = activations_.data;
  args.x_stride = RowBytes(w.dtype(), padded);
  return args;
}

LinearRunner::Kernel* LinearRunner::KernelOf(WeightDType dtype) const {
  switch (dtype) {
    case WeightDType::kF32:
      return kernels_.linear_f32;
    case WeightDType::kBF16:
      return kernels_.linear_bf16;
    case WeightDType::kInt8:
      return kernels_.linear_int8;
    case WeightDType::kInt4:
      return kernels_.linear_int4;
  }
  return nullptr;
}

bool LinearRunner::CanGate(const Matrix& x, const PackedWeights& w) const {
  return x.rows >= kMinGatedRows && w.rows() % (2 * kernels_.tile_rows) == 0;
}

void LinearRunner::RunGated(Matrix x, const PackedWeights& w, const float* bias, GateKernel* gate,
                            Matrix y) {
  HYDRANT_CHECK(y.cols * 2 == w.rows() && x.rows == y.rows);
  const LinearArgs args = Prepare(x, w, bias);
  Kernel* kernel = KernelOf(w.dtype());
  const int64_t tile_rows = kernels_.tile_rows;
  const int64_t tiles = w.num_tiles() / 2;  // of gates; as many of ups follow
  const int64_t groups = (tiles + kGatedTiles - 1) / kGatedTiles;
  const int64_t chunks = (x.rows + kGatedRows - 1) / kGatedRows;
  const int64_t width = kGatedTiles * tile_rows;
  pool_.ForEach(groups * chunks, 1, [&](int64_t claim, int member) {
    const int64_t tile = claim / chunks * kGatedTiles;
    const int64_t end = std::min(tile + kGatedTiles, tiles);
    const int64_t row = claim % chunks * kGatedRows;
    const int64_t row_end = std::min(row + kGatedRows, x.rows);
    float* gates = reinterpret_cast<float*>(gated_.data) + member * kGatedRows * 2 * width;
    float* ups = gates + width;
    LinearArgs part = args;
    part.y_stride = 2 * width;
    // Kernels count rows and columns from the matrix's first.
    part.y = gates - (row * part.y_stride + tile * tile_rows);
    kernel(part, tile, end, row, row_end);
    part.y = ups - (row * part.y_stride + (tiles + tile) * tile_rows);
    kernel(part, tiles + tile, tiles + end, row, row_end);
    for (int64_t r = row; r < row_end; ++r, gates += 2 * width, ups += 2 * width) {
      gate(gates, ups, (end - tile) * tile_rows, y.f32() + r * y.cols + tile * tile_rows);
    }
  });
}

void LinearRunner::Run(Matrix x, const PackedWeights& w, const float* bias, bool accumulate,
                       Matrix y) {
  HYDRANT_CHECK(y.cols == w.rows() && x.rows == y.rows);
  if (x.rows == 0) return;
  LinearArgs args = Prepare(x, w, bias);
  args.accumulate = accumulate;
  args.y = y.f32();
  args.y_stride = y.cols;
  Kernel* kernel = KernelOf(w.dtype());

  // Cut into row chunks (only where tiles alone are too few claims) by groups of tiles.
  const int64_t tiles = w.num_tiles();
  const int64_t wanted = ThreadPool::kClaimsPerMember * pool_.size();
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
