// int8 linear layers in AMX tile registers: sixteen activation rows by one packed tile of outputs.
// The packed layout is the one that the instructions want (four neighbouring columns side by side),
// and int32 sums are exact, so the results are those of the vector kernels bit for bit.

#ifndef HYDRANT_KERNELS_CPU_ISA_AMX_INT8_H_
#define HYDRANT_KERNELS_CPU_ISA_AMX_INT8_H_

#include "kernels/cpu/isa/amx_tiles.h"
#include "kernels/cpu/isa/linear.h"

#if defined(__AMX_INT8__)

namespace hydrant::kernels::cpu::HYDRANT_ISA {

// Fewer rows than this leave most of a tile register empty: vectors are faster.
inline constexpr int64_t kAmxMinRows = 6;
// With up to this many strips of rows, the next tile of weights is asked for beforehand.
inline constexpr int64_t kAmxAheadStrips = 8;
// Five of eight: a loop of products and loads ran 1.7 times as fast with five registers in use as
// with seven, on two virtual cores of a Sapphire Rapids class machine.
static_assert(kTileVectors == 3, "registers 0-2 hold sums, 3 activations, 4 weights");

// What becomes of sums[rows][kTileRows], the first of them y[row][column].
HYDRANT_INLINE void FinishTile(const LinearArgs& args, int64_t row, int64_t rows, int64_t column,
                               const int32_t* sums) {
  const bool whole = args.rows - column >= kTileRows;
  for (int64_t m = 0; m < rows; ++m, sums += kTileRows) {
    const auto scaled = [&](int n) __attribute__((always_inline)) {
      return ScaleInt8(args, row + m, column + n * kLanes, LoadI(sums + n * kLanes));
    };
    if (args.bias != nullptr || !whole) {
      HYDRANT_UNROLL for (int n = 0; n < kTileVectors; ++n) {
        Finish(args, row + m, column + n * kLanes, scaled(n));
      }
      continue;
    }
    // The same without the questions that Finish asks for each vector.
    float* y = args.y + (row + m) * args.y_stride + column;
    HYDRANT_UNROLL for (int n = 0; n < kTileVectors; ++n) {
      const F16 v = scaled(n);
      StoreF(y + n * kLanes, args.accumulate ? LoadF(y + n * kLanes) + v : v);
    }
  }
}

static void RunTilesAmx(const LinearArgs& args, int64_t tile_begin, int64_t tile_end,
                        int64_t row_begin, int64_t row_end) {
  AmxShapes shapes;
  for (int i = 0; i < 5; ++i) shapes.Set(i, kAmxRows, kAmxRowBytes);
  shapes.Load();
  alignas(64) int32_t sums[kAmxRows][kTileRows];
  constexpr int kWeightStride = kTileRows * 4;  // bytes from four columns to the next four
  constexpr int64_t kStepBytes = kAmxRows * kWeightStride;
  // While a tile meets its strips, the next one comes to the second cache, a share with each.
  const int64_t strips = (row_end - row_begin + kAmxRows - 1) / kAmxRows;
  const int64_t share =
      strips <= kAmxAheadStrips ? (kStepBytes / 64 + strips - 1) / strips * 64 : 0;
  for (int64_t t = tile_begin; t < tile_end; ++t) {
    const uint8_t* next = args.weights + (t + 1) * args.tile_bytes;
    for (int64_t row = row_begin; row < row_end; row += kAmxRows) {
      const uint8_t* x = args.x + row * args.x_stride;
      const uint8_t* w = args.weights + t * args.tile_bytes;
      _tile_zero(0);
      _tile_zero(1);
      _tile_zero(2);
      for (int64_t k = 0; k < args.cols; k += kAmxRowBytes) {
        _tile_loadd(3, x + k, args.x_stride);
        _tile_loadd(4, w, kWeightStride);
        _tile_dpbsud(0, 3, 4);
        _tile_loadd(4, w + 64, kWeightStride);
        _tile_dpbsud(1, 3, 4);
        _tile_loadd(4, w + 128, kWeightStride);
        _tile_dpbsud(2, 3, 4);
        w += kStepBytes;
        if (t + 1 < tile_end) {
          for (int64_t at = 0; at < share; at += 64) __builtin_prefetch(next + at, 0, 2);
          next += share;
        }
      }
      _tile_stored(0, sums[0], sizeof(sums[0]));
      _tile_stored(1, sums[0] + kLanes, sizeof(sums[0]));
      _tile_stored(2, sums[0] + 2 * kLanes, sizeof(sums[0]));
      const int64_t rows = row_end - row < kAmxRows ? row_end - row : kAmxRows;
      FinishTile(args, row, rows, t * kTileRows, sums[0]);
    }
  }
  _tile_release();
}

static void RunInt8(const LinearArgs& args, int64_t tile_begin, int64_t tile_end, int64_t row_begin,
                    int64_t row_end) {
  if (row_end - row_begin >= kAmxMinRows) {
    RunTilesAmx(args, tile_begin, tile_end, row_begin, row_end);
  } else {
    RunTiles<Int8Step>(args, tile_begin, tile_end, row_begin, row_end);
  }
}

}  // namespace hydrant::kernels::cpu::HYDRANT_ISA

#else

namespace hydrant::kernels::cpu::HYDRANT_ISA {

static void RunInt8(const LinearArgs& args, int64_t tile_begin, int64_t tile_end, int64_t row_begin,
                    int64_t row_end) {
  RunTiles<Int8Step>(args, tile_begin, tile_end, row_begin, row_end);
}

}  // namespace hydrant::kernels::cpu::HYDRANT_ISA

#endif

#endif  // HYDRANT_KERNELS_CPU_ISA_AMX_INT8_H_
