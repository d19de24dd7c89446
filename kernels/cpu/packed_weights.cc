#include "kernels/cpu/packed_weights.h"

#include <cstring>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/quantization.h"

namespace hydrant::kernels::cpu {
namespace {

size_t ElementBytes(WeightDType dtype) {
  switch (dtype) {
    case WeightDType::kF32:
      return 4;
    case WeightDType::kBF16:
      return 2;
    case WeightDType::kInt8:
      return 1;
  }
  __builtin_unreachable();
}

}  // namespace

int64_t PadCols(WeightDType dtype, int64_t cols) {
  const int64_t to = dtype == WeightDType::kInt8 ? 64 : dtype == WeightDType::kBF16 ? 2 : 1;
  return (cols + to - 1) / to * to;
}

PackedWeights::PackedWeights(int64_t rows, int64_t cols, WeightDType dtype,
                             const KernelTable& kernels, Arena& arena)
    : PackedMatrix(rows, cols),
      dtype_(dtype),
      tile_rows_(kernels.tile_rows),
      padded_cols_(PadCols(dtype, cols)),
      num_tiles_((rows + tile_rows_ - 1) / tile_rows_),
      tile_bytes_(tile_rows_ * padded_cols_ * ElementBytes(dtype)),
      tiles_(arena.Cut(num_tiles_ * tile_bytes_)) {
  if (dtype == WeightDType::kInt8) scales_ = arena.Cut(num_tiles_ * tile_rows_ * sizeof(float));
}

absl::StatusOr<std::unique_ptr<PackedMatrix>> PackedWeights::Make(const MatrixSource& source,
                                                                  WeightDType dtype,
                                                                  const KernelTable& kernels,
                                                                  ThreadPool& pool, Arena& arena) {
  if (source.rows <= 0 || source.cols <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("a matrix of ", source.rows, " x ", source.cols, " has no elements"));
  }
  if (dtype == WeightDType::kInt8 && source.cols > kMaxInt8Cols) {
    return absl::InvalidArgumentError(absl::StrCat("int8 weights have at most ", kMaxInt8Cols,
                                                   " columns, this matrix has ", source.cols));
  }
  std::unique_ptr<PackedWeights> packed(
      new PackedWeights(source.rows, source.cols, dtype, kernels, arena));
  struct Scratch {
    std::vector<float> row, rotated;
    std::vector<uint8_t> narrow;
  };
  std::vector<Scratch> scratch(pool.size());
  pool.ForEach(packed->num_tiles_, 1, [&](int64_t tile, int member) {
    Scratch& mine = scratch[member];
    if (mine.row.empty()) {
      mine.row.resize(source.cols);
      mine.rotated.resize(source.cols);
      mine.narrow.resize(packed->tile_bytes_);
    }
    packed->PackTile(source, kernels, tile, mine.row.data(), mine.rotated.data(),
                     mine.narrow.data());
  });
  return packed;
}

void PackedWeights::PackTile(const MatrixSource& source, const KernelTable& kernels, int64_t tile,
                             float* row, float* rotated, uint8_t* narrow) {
  const int64_t row_bytes = tile_bytes_ / tile_rows_;
  const auto block = static_cast<int32_t>(HadamardBlock(cols()));
  const float normalise = HadamardNormalise(block);
  std::memset(narrow, 0, tile_bytes_);
  for (int64_t i = 0; i < tile_rows_; ++i) {
    const int64_t r = tile * tile_rows_ + i;
    if (r >= rows()) break;
    source.read_row(r, row);
    uint8_t* out = narrow + i * row_bytes;
    switch (dtype_) {
      case WeightDType::kF32:
        std::memcpy(out, row, row_bytes);
        break;
      case WeightDType::kBF16:
        kernels.round_bf16(row, cols(), padded_cols_, reinterpret_cast<uint16_t*>(out));
        break;
      case WeightDType::kInt8: {
        int32_t sum;
        reinterpret_cast<float*>(scales_.data)[r] =
            kernels.quantize(row, cols(), padded_cols_, block, normalise, rotated,
                             reinterpret_cast<int8_t*>(out), &sum);
        break;
      }
    }
  }
  // Every four bytes of a row (one f32, a pair of bf16, a quad of int8) are a lane of the tile.
  const uint32_t flip = dtype_ == WeightDType::kInt8 ? kernels.int8_flip * 0x01010101u : 0;
  uint8_t* to = tiles_.data + tile * tile_bytes_;
  for (int64_t at = 0; at < row_bytes; at += 4) {
    for (int64_t i = 0; i < tile_rows_; ++i, to += 4) {
      uint32_t word;
      std::memcpy(&word, narrow + i * row_bytes + at, sizeof(word));
      word ^= flip;
      std::memcpy(to, &word, sizeof(word));
    }
  }
}

}  // namespace hydrant::kernels::cpu
