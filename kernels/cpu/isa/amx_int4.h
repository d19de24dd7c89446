// int4 linear layers in AMX tile registers: up to sixteen activation rows by sixteen outputs, a
// group at a time. The sums of a group are exact in int32, and AddGroup scales and adds them as it
// does those of the vector kernels, so the results are theirs bit for bit.

#ifndef HYDRANT_KERNELS_CPU_ISA_AMX_INT4_H_
#define HYDRANT_KERNELS_CPU_ISA_AMX_INT4_H_

#include "kernels/cpu/isa/amx_tiles.h"
#include "kernels/cpu/isa/int4_linear.h"

#if defined(__AMX_INT8__)

namespace hydrant::kernels::cpu::HYDRANT_ISA {

// Fewer rows than this leave some of a tile register empty: vectors are as fast or faster.
inline constexpr int64_t kAmxInt4MinRows = kAmxRows;
inline constexpr int64_t kAmxInt4Groups = 8;  // unpacked at a time
inline constexpr int64_t kAmxInt4Rows = 64;   // that share what is unpacked
// So that multiplying and scaling overlap, sums are this many groups ahead.
inline constexpr int64_t kAmxInt4Ahead = 2;

// Of sixteen outputs and some groups: levels as the tile registers want them, scales and zeros.
struct Int4Panel {
  static constexpr int kLevelRows = kInt4Group / 4;
  struct Group {
    uint8_t levels[kLevelRows][kAmxRowBytes];
    float scale[kLanes];
    float zero[kLanes];
  };
  alignas(64) Group groups[kAmxInt4Groups];

  void Unpack(const uint8_t* from, int64_t count) {
    for (int64_t g = 0; g < count; ++g, from += kTileVectors * kInt4WeightBytes) {
      HYDRANT_UNROLL for (int c = 0; c < kInt4Words; ++c) {
        const I16 words = LoadI(from + c * kAmxRowBytes);
        __builtin_prefetch(from + kPrefetchBytes + c * kAmxRowBytes);
        StoreI(groups[g].levels[2 * c], LowLevels(words));
        StoreI(groups[g].levels[2 * c + 1], HighLevels(words));
      }
      StoreF(groups[g].scale, LoadFiniteF16(from + kInt4ScalesAt));
      StoreF(groups[g].zero, LoadFiniteF16(from + kInt4ZerosAt));
    }
    // g++ does not know that tile registers are loaded from what is stored above.
    asm volatile("" : : "r"(this) : "memory");
  }
};

// Of some groups and sixteen rows of activations: their scales and sums, side by side, since g++
// runs out of registers for the addresses of so many rows.
typedef uint64_t Int4XScales[kAmxInt4Groups][kAmxRows];

HYDRANT_INLINE void GatherXScales(const uint8_t* x, int64_t x_stride, int64_t count,
                                  Int4XScales& to) {
  for (int64_t m = 0; m < kAmxRows; ++m, x += x_stride) {
    for (int64_t g = 0; g < count; ++g) {
      __builtin_memcpy(&to[g][m], x + g * kInt4XBytes + kInt4XScaleAt, sizeof(to[g][m]));
    }
  }
}

// y [kRows][16] grows by `count` groups; x: the activations of the first of them.
template <int kRows>
static __attribute__((noinline)) void AddGroupsAmx(const uint8_t* x, int64_t x_stride,
                                                   const Int4XScales& x_scales,
                                                   const Int4Panel& panel, int64_t count,
                                                   float (*to)[kLanes]) {
  constexpr int64_t kSums = 4;
  static_assert(kSums > kAmxInt4Ahead);
  alignas(64) int32_t sums[kSums][kAmxRows][kLanes];
  const auto multiply = [&](int64_t g) __attribute__((always_inline)) {
    _tile_loadd(1, x + g * kInt4XBytes, x_stride);
    _tile_loadd(2, panel.groups[g].levels, kAmxRowBytes);
    _tile_zero(0);
    _tile_dpbsud(0, 1, 2);
    _tile_stored(0, sums[g % kSums], kAmxRowBytes);
  };
  for (int64_t g = 0; g < kAmxInt4Ahead && g < count; ++g) multiply(g);
  F16 y[kRows];
  HYDRANT_UNROLL for (int m = 0; m < kRows; ++m) y[m] = LoadF(to[m]);
  for (int64_t g = 0; g < count; ++g) {
    if (g + kAmxInt4Ahead < count) multiply(g + kAmxInt4Ahead);
    const F16 scale = LoadF(panel.groups[g].scale), zero = LoadF(panel.groups[g].zero);
    HYDRANT_UNROLL for (int m = 0; m < kRows; ++m) {
      y[m] = AddGroup(LoadI(sums[g % kSums][m]), &x_scales[g][m], scale, zero, y[m]);
    }
  }
  HYDRANT_UNROLL for (int m = 0; m < kRows; ++m) StoreF(to[m], y[m]);
}

static void AddGroupsAmx(const uint8_t* x, int64_t x_stride, int64_t rows,
                         const Int4XScales& x_scales, const Int4Panel& panel, int64_t count,
                         float (*to)[kLanes]) {
  if (rows > 12) {
    AddGroupsAmx<16>(x, x_stride, x_scales, panel, count, to);
  } else if (rows > 8) {
    AddGroupsAmx<12>(x, x_stride, x_scales, panel, count, to);
  } else if (rows > 4) {
    AddGroupsAmx<8>(x, x_stride, x_scales, panel, count, to);
  } else {
    AddGroupsAmx<4>(x, x_stride, x_scales, panel, count, to);
  }
}

// Tile t by up to kAmxInt4Rows rows.
HYDRANT_INLINE void RunInt4Tile(const LinearArgs& args, int64_t t, int64_t row, int64_t rows) {
  Int4Panel panel;
  Int4XScales x_scales[kAmxInt4Rows / kAmxRows];
  alignas(64) float y[kTileVectors][kAmxInt4Rows][kLanes];
  for (int n = 0; n < kTileVectors; ++n) __builtin_memset(y[n], 0, rows * sizeof(y[n][0]));
  const int64_t groups = args.cols / kInt4Group;
  const uint8_t* weights = args.weights + t * args.tile_bytes;
  const uint8_t* x = args.x + row * args.x_stride;
  for (int64_t g = 0; g < groups; g += kAmxInt4Groups) {
    const int64_t count = groups - g < kAmxInt4Groups ? groups - g : kAmxInt4Groups;
    for (int64_t m = 0; m < rows; m += kAmxRows) {
      GatherXScales(x + m * args.x_stride, args.x_stride, count, x_scales[m / kAmxRows]);
    }
    for (int n = 0; n < kTileVectors; ++n) {
      panel.Unpack(weights + n * kInt4WeightBytes, count);
      for (int64_t m = 0; m < rows; m += kAmxRows) {
        AddGroupsAmx(x + m * args.x_stride, args.x_stride, rows - m, x_scales[m / kAmxRows], panel,
                     count, y[n] + m);
      }
    }
    weights += count * kTileVectors * kInt4WeightBytes;
    x += count * kInt4XBytes;
  }
  for (int64_t m = 0; m < rows; ++m) {
    HYDRANT_UNROLL for (int n = 0; n < kTileVectors; ++n) {
      Finish(args, row + m, t * kTileRows + n * kLanes, LoadF(y[n][m]));
    }
  }
}

static void RunInt4(const LinearArgs& args, int64_t tile_begin, int64_t tile_end, int64_t row_begin,
                    int64_t row_end) {
  if (row_end - row_begin < kAmxInt4MinRows) {
    RunTiles<Int4Step>(args, tile_begin, tile_end, row_begin, row_end);
    return;
  }
  AmxShapes shapes;
  shapes.Set(0, kAmxRows, kAmxRowBytes);
  shapes.Set(1, kAmxRows, kInt4Group);
  shapes.Set(2, Int4Panel::kLevelRows, kAmxRowBytes);
  shapes.Load();
  for (int64_t t = tile_begin; t < tile_end; ++t) {
    for (int64_t row = row_begin; row < row_end; row += kAmxInt4Rows) {
      RunInt4Tile(args, t, row, row_end - row < kAmxInt4Rows ? row_end - row : kAmxInt4Rows);
    }
  }
  _tile_release();
}

}  // namespace hydrant::kernels::cpu::HYDRANT_ISA

#else

namespace hydrant::kernels::cpu::HYDRANT_ISA {

static void RunInt4(const LinearArgs& args, int64_t tile_begin, int64_t tile_end, int64_t row_begin,
                    int64_t row_end) {
  RunTiles<Int4Step>(args, tile_begin, tile_end, row_begin, row_end);
}

}  // namespace hydrant::kernels::cpu::HYDRANT_ISA

#endif

#endif  // HYDRANT_KERNELS_CPU_ISA_AMX_INT4_H_
