// Linear layers over packed tiles. A tile's kernel keeps MR activation rows by tile_rows outputs in
// registers and walks over all columns; each output is one chain of additions in the order of the
// columns, so it does not depend on MR, on the tile's neighbours or on who computes it.

#ifndef HYDRANT_KERNELS_CPU_ISA_LINEAR_H_
#define HYDRANT_KERNELS_CPU_ISA_LINEAR_H_

#include "kernels/cpu/isa/bf16_pairs.h"
#include "kernels/cpu/isa/int8_quads.h"
#include "kernels/cpu/isa/kernel_table.h"
#include "kernels/cpu/isa/simd.h"

namespace hydrant::kernels::cpu::HYDRANT_ISA {

#if defined(__AVX512F__)
inline constexpr int kTileVectors = 3;
inline constexpr int kMaxTileRows = 8;  // activation rows of one kernel
#elif defined(__AVX2__)
inline constexpr int kTileVectors = 1;
inline constexpr int kMaxTileRows = 4;
#else
inline constexpr int kTileVectors = 1;
inline constexpr int kMaxTileRows = 2;
#endif
inline constexpr int kTileRows = kTileVectors * kLanes;
// Weights are asked for this many bytes ahead where a kernel is bound by memory.
inline constexpr int kPrefetchBytes = 4096;
inline constexpr int kPrefetchMaxRows = 4;

// y[row][column ...] from one vector of results.
HYDRANT_INLINE void Finish(const LinearArgs& args, int64_t row, int64_t column, F16 v) {
  const int64_t left = args.rows - column;
  if (left <= 0) return;
  float* y = args.y + row * args.y_stride + column;
  if (left >= kLanes) {
    if (args.bias != nullptr) v = v + LoadF(args.bias + column);
    if (args.accumulate) v = LoadF(y) + v;
    StoreF(y, v);
  } else {
    if (args.bias != nullptr) v = v + LoadPartial(args.bias + column, left);
    if (args.accumulate) v = LoadPartial(y, left) + v;
    StorePartial(y, v, left);
  }
}

HYDRANT_INLINE void Prefetch(const uint8_t* from) {
  HYDRANT_UNROLL for (int n = 0; n < kTileVectors; ++n) {
    __builtin_prefetch(from + kPrefetchBytes + n * 64);
  }
}

struct F32Step {
  static constexpr int kMaxRows = kMaxTileRows;
  template <int kRows>
  HYDRANT_INLINE void Run(const LinearArgs& args, const uint8_t* tile, int64_t column,
                          int64_t row) {
    F16 sum[kRows][kTileVectors];
    HYDRANT_UNROLL for (int m = 0; m < kRows; ++m) {
      HYDRANT_UNROLL for (int n = 0; n < kTileVectors; ++n) sum[m][n] = ZeroF();
    }
    const uint8_t* x = args.x + row * args.x_stride;
    for (int64_t k = 0; k < args.cols; ++k) {
      F16 w[kTileVectors];
      HYDRANT_UNROLL for (int n = 0; n < kTileVectors; ++n) w[n] = LoadF(tile + n * 64);
      if constexpr (kRows <= kPrefetchMaxRows) Prefetch(tile);
      tile += kTileVectors * 64;
      HYDRANT_UNROLL for (int m = 0; m < kRows; ++m) {
        const F16 value = AsF(BroadcastWord(x + m * args.x_stride + k * 4));
        HYDRANT_UNROLL for (int n = 0; n < kTileVectors; ++n) {
          sum[m][n] = Fma(w[n], value, sum[m][n]);
        }
      }
    }
    HYDRANT_UNROLL for (int m = 0; m < kRows; ++m) {
      HYDRANT_UNROLL for (int n = 0; n < kTileVectors; ++n) {
        Finish(args, row + m, column + n * kLanes, sum[m][n]);
      }
    }
  }
};

struct BF16Step {
  // Where a pair is split in two, weights take twice the registers.
  static constexpr int kMaxRows = sizeof(NarrowF) == 2 ? kMaxTileRows : kMaxTileRows * 3 / 4;
  template <int kRows>
  HYDRANT_INLINE void Run(const LinearArgs& args, const uint8_t* tile, int64_t column,
                          int64_t row) {
    F16 sum[kRows][kTileVectors];
    HYDRANT_UNROLL for (int m = 0; m < kRows; ++m) {
      HYDRANT_UNROLL for (int n = 0; n < kTileVectors; ++n) sum[m][n] = ZeroF();
    }
    const uint8_t* x = args.x + row * args.x_stride;
    for (int64_t k = 0; k < args.cols; k += 2) {
      BF16Pairs w[kTileVectors];
      HYDRANT_UNROLL for (int n = 0; n < kTileVectors; ++n) w[n] = LoadPairs(tile + n * 64);
      if constexpr (kRows <= kPrefetchMaxRows) Prefetch(tile);
      tile += kTileVectors * 64;
      HYDRANT_UNROLL for (int m = 0; m < kRows; ++m) {
        const BF16Pairs value = BroadcastPair(x + m * args.x_stride + k * sizeof(NarrowF));
        HYDRANT_UNROLL for (int n = 0; n < kTileVectors; ++n) {
          sum[m][n] = DotPairs(w[n], value, sum[m][n]);
        }
      }
    }
    HYDRANT_UNROLL for (int m = 0; m < kRows; ++m) {
      HYDRANT_UNROLL for (int n = 0; n < kTileVectors; ++n) {
        Finish(args, row + m, column + n * kLanes, sum[m][n]);
      }
    }
  }
};

// The numbers that int32 sums stand for.
HYDRANT_INLINE F16 ScaleInt8(const LinearArgs& args, int64_t row, int64_t column, I16 sum) {
  if constexpr (kInt8Flip != 0) sum = sum - SetI(128 * args.x_sum[row]);
  // w_scale is padded to whole tiles.
  return (ToFloat(sum) * SetF(args.x_scale[row])) * LoadF(args.w_scale + column);
}

struct Int8Step {
  static constexpr int kMaxRows = kMaxTileRows;
  template <int kRows>
  HYDRANT_INLINE void Run(const LinearArgs& args, const uint8_t* tile, int64_t column,
                          int64_t row) {
    I16 sum[kRows][kTileVectors];
    HYDRANT_UNROLL for (int m = 0; m < kRows; ++m) {
      HYDRANT_UNROLL for (int n = 0; n < kTileVectors; ++n) sum[m][n] = ZeroI();
    }
    const uint8_t* x = args.x + row * args.x_stride;
    for (int64_t k = 0; k < args.cols; k += 4) {
      I16 w[kTileVectors];
      HYDRANT_UNROLL for (int n = 0; n < kTileVectors; ++n) w[n] = LoadI(tile + n * 64);
      if constexpr (kRows <= kPrefetchMaxRows) Prefetch(tile);
      tile += kTileVectors * 64;
      HYDRANT_UNROLL for (int m = 0; m < kRows; ++m) {
        const I16 value = BroadcastWord(x + m * args.x_stride + k);
        HYDRANT_UNROLL for (int n = 0; n < kTileVectors; ++n) {
          sum[m][n] = DotQuads(w[n], value, sum[m][n]);
        }
      }
    }
    HYDRANT_UNROLL for (int m = 0; m < kRows; ++m) {
      HYDRANT_UNROLL for (int n = 0; n < kTileVectors; ++n) {
        const int64_t at = column + n * kLanes;
        Finish(args, row + m, at, ScaleInt8(args, row + m, at, sum[m][n]));
      }
    }
  }
};

template <typename Step, int kRows>
static __attribute__((noinline)) void RunRows(const LinearArgs& args, const uint8_t* tile,
                                              int64_t column, int64_t row) {
  Step::template Run<kRows>(args, tile, column, row);
}

// Calls the kernel for exactly `rows` rows, 1 <= rows <= Step::kMaxRows.
template <typename Step, int kRows = Step::kMaxRows>
static void Dispatch(const LinearArgs& args, const uint8_t* tile, int64_t column, int64_t row,
                     int64_t rows) {
  if (rows == kRows) {
    RunRows<Step, kRows>(args, tile, column, row);
  } else if constexpr (kRows > 1) {
    Dispatch<Step, kRows - 1>(args, tile, column, row, rows);
  }
}

template <typename Step>
static void RunTiles(const LinearArgs& args, int64_t tile_begin, int64_t tile_end,
                     int64_t row_begin, int64_t row_end) {
  for (int64_t t = tile_begin; t < tile_end; ++t) {
    const uint8_t* tile = args.weights + t * args.tile_bytes;
    // As few kernel calls as possible, of about equal height.
    int64_t row = row_begin;
    while (row < row_end) {
      const int64_t left = row_end - row;
      const int64_t calls = (left + Step::kMaxRows - 1) / Step::kMaxRows;
      const int64_t rows = (left + calls - 1) / calls;
      Dispatch<Step>(args, tile, t * kTileRows, row, rows);
      row += rows;
    }
  }
}

}  // namespace hydrant::kernels::cpu::HYDRANT_ISA

#endif  // HYDRANT_KERNELS_CPU_ISA_LINEAR_H_
