#include "kernels/cpu/packed_weights.h"

#include <cstring>

#include "absl/status/status.h"
#include "kernels/cpu/isa/int4_layout.h"
#include "kernels/int4_source.h"
#include "kernels/quantization.h"
#include "kernels/shapes.h"

namespace hydrant::kernels::cpu {
namespace {

// Of one row of a tile.
int64_t RowBytes(WeightDType dtype, int64_t padded_cols) {
  switch (dtype) {
    case WeightDType::kF32:
      return padded_cols * 4;
    case WeightDType::kBF16:
      return padded_cols * 2;
    case WeightDType::kInt8:
      return padded_cols;
    case WeightDType::kInt4:
      return padded_cols / kInt4Group * (kInt4WeightBytes / kInt4Outputs);
  }
  __builtin_unreachable();
}

// Columns as they are padded in tiles and activations.
int64_t PadCols(WeightDType dtype, int64_t cols) {
  int64_t to = 1;
  if (dtype == WeightDType::kBF16) to = 2;
  if (dtype == WeightDType::kInt8) to = 64;
  if (dtype == WeightDType::kInt4) to = kInt4Group;
  return (cols + to - 1) / to * to;
}

}  // namespace

PackedWeights::PackedWeights(int64_t rows, int64_t cols, WeightDType dtype,
                             const KernelTable& kernels, Arena& arena)
    : PackedMatrix(rows, cols),
      dtype_(dtype),
      tile_rows_(kernels.tile_rows),
      padded_cols_(PadCols(dtype, cols)),
      num_tiles_((rows + tile_rows_ - 1) / tile_rows_),
      tile_bytes_(tile_rows_ * RowBytes(dtype, padded_cols_)),
      tiles_(arena.Cut(num_tiles_ * tile_bytes_)) {
  if (dtype == WeightDType::kInt8) scales_ = arena.Cut(num_tiles_ * tile_rows_ * sizeof(float));
}

absl::StatusOr<std::unique_ptr<PackedMatrix>> PackedWeights::Make(const MatrixSource& source,
                                                                  WeightDType dtype,
                                                                  const KernelTable& kernels,
                                                                  ThreadPool& pool, Arena& arena) {
  if (absl::Status status = CheckMatrix(source, dtype); !status.ok()) return status;
  std::unique_ptr<PackedWeights> packed(
      new PackedWeights(source.rows, source.cols, dtype, kernels, arena));
  std::vector<Scratch> scratch(pool.size());
  pool.ForEach(packed->num_tiles_, 1, [&](int64_t tile, int member) {
    Scratch& mine = scratch[member];
    if (mine.row.empty()) {
      mine.row.resize(source.cols);
      mine.rotated.resize(source.cols);
      mine.narrow.resize(packed->tile_bytes_);
      mine.levels.resize(packed->padded_cols_);
      mine.ranges.resize(Int4Groups(source.cols));
    }
    mine.status.Update(packed->PackTile(source, kernels, tile, mine));
  });
  for (const Scratch& each : scratch) {
    if (!each.status.ok()) return each.status;
  }
  return packed;
}

absl::Status PackedWeights::PackTile(const MatrixSource& source, const KernelTable& kernels,
                                     int64_t tile, Scratch& scratch) {
  const int64_t row_bytes = tile_bytes_ / tile_rows_;
  const auto block = static_cast<int32_t>(HadamardBlock(cols()));
  const float normalise = HadamardNormalise(block);
  uint8_t* narrow = scratch.narrow.data();
  float* row = scratch.row.data();
  std::memset(narrow, 0, tile_bytes_);
  for (int64_t i = 0; i < tile_rows_; ++i) {
    const int64_t r = tile * tile_rows_ + i;
    if (r >= rows()) break;
    uint8_t* out = narrow + i * row_bytes;
    if (dtype_ == WeightDType::kInt4) {
      absl::Status status =
          ReadInt4Row(source, r, row, scratch.levels.data(), scratch.ranges.data());
      if (!status.ok()) return status;
      NarrowGroups(scratch, out);
      continue;
    }
    source.read_row(r, row);
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
            kernels.quantize(row, cols(), padded_cols_, block, normalise, scratch.rotated.data(),
                             reinterpret_cast<int8_t*>(out), &sum);
        break;
      }
      case WeightDType::kInt4:
        break;
    }
  }
  uint8_t* to = tiles_.data + tile * tile_bytes_;
  if (dtype_ == WeightDType::kInt4) {
    InterleaveGroups(narrow, to);
  } else {
    Interleave(narrow, dtype_ == WeightDType::kInt8 ? kernels.int8_flip * 0x01010101u : 0, to);
  }
  return absl::OkStatus();
}

void PackedWeights::NarrowGroups(const Scratch& scratch, uint8_t* out) const {
  const uint8_t* levels = scratch.levels.data();
  for (const Int4Range& range : scratch.ranges) {
    for (int64_t word = 0; word < kInt4Words; ++word, levels += 8) {
      for (int j = 0; j < 4; ++j) *out++ = static_cast<uint8_t>(levels[j] | levels[4 + j] << 4);
    }
    std::memcpy(out, &range.scale, 2);
    std::memcpy(out + 2, &range.zero, 2);
    out += 4;
  }
}

void PackedWeights::Interleave(const uint8_t* narrow, uint32_t flip, uint8_t* to) const {
  // Every four bytes of a row (one f32, a pair of bf16, a quad of int8) are a lane of the tile.
  const int64_t row_bytes = tile_bytes_ / tile_rows_;
  for (int64_t at = 0; at < row_bytes; at += 4) {
    for (int64_t i = 0; i < tile_rows_; ++i, to += 4) {
      uint32_t word;
      std::memcpy(&word, narrow + i * row_bytes + at, sizeof(word));
      word ^= flip;
      std::memcpy(to, &word, sizeof(word));
    }
  }
}

void PackedWeights::InterleaveGroups(const uint8_t* narrow, uint8_t* to) const {
  const int64_t row_bytes = tile_bytes_ / tile_rows_;
  constexpr int64_t kGroupBytes = kInt4WeightBytes / kInt4Outputs;
  for (int64_t at = 0; at < row_bytes; at += kGroupBytes) {
    for (int64_t first = 0; first < tile_rows_; first += kInt4Outputs, to += kInt4WeightBytes) {
      for (int64_t i = 0; i < kInt4Outputs; ++i) {
        const uint8_t* group = narrow + (first + i) * row_bytes + at;
        for (int64_t word = 0; word < kInt4Words; ++word) {
          std::memcpy(to + (word * kInt4Outputs + i) * 4, group + word * 4, 4);
        }
        std::memcpy(to + kInt4ScalesAt + i * 2, group + kInt4Words * 4, 2);
        std::memcpy(to + kInt4ZerosAt + i * 2, group + kInt4Words * 4 + 2, 2);
      }
    }
  }
}

}  // namespace hydrant::kernels::cpu
