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
static_assert(kTileVectors == 3, "registers 0-2 hold sums, 3 activations, 4-6 weights");

static void RunTilesAmx(const LinearArgs& args, int64_t tile_begin, int64_t tile_end,
                        int64_t row_begin, int64_t row_end) {
  AmxShapes shapes;
  for (int i = 0; i < 7; ++i) shapes.Set(i, kAmxRows, kAmxRowBytes);
  shapes.Load();
  alignas(64) int32_t sums[kAmxRows][kTileRows];
  constexpr int kWeightStride = kTileRows * 4;  // bytes from four columns to the next four
  for (int64_t t = tile_begin; t < tile_end; ++t) {
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
        _tile_loadd(5, w + 64, kWeightStride);
        _tile_dpbsud(1, 3, 5);
        _tile_loadd(6, w + 128, kWeightStride);
        _tile_dpbsud(2, 3, 6);
        w += kAmxRows * kWeightStride;
      }
      _tile_stored(0, sums[0], sizeof(sums[0]));
      _tile_stored(1, sums[0] + kLanes, sizeof(sums[0]));
      _tile_stored(2, sums[0] + 2 * kLanes, sizeof(sums[0]));
      const int64_t rows = row_end - row < kAmxRows ? row_end - row : kAmxRows;
      for (int64_t m = 0; m < rows; ++m) {
        for (int n = 0; n < kTileVectors; ++n) {
          FinishInt8(args, row + m, t * kTileRows + n * kLanes, LoadI(sums[m] + n * kLanes));
        }
      }
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
