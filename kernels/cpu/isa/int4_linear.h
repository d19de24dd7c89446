// int4 linear layers: the arithmetic of kernels/quantization.h, in the layout of int4_layout.h.

#ifndef HYDRANT_KERNELS_CPU_ISA_INT4_LINEAR_H_
#define HYDRANT_KERNELS_CPU_ISA_INT4_LINEAR_H_

#include "kernels/cpu/isa/int4_layout.h"
#include "kernels/cpu/isa/int4_levels.h"
#include "kernels/cpu/isa/lanes.h"
#include "kernels/cpu/isa/linear.h"
#include "kernels/cpu/isa/quantize.h"

namespace hydrant::kernels::cpu::HYDRANT_ISA {

// What a group adds to y. dot: of its levels and activations; x_scales: the activations' scale, and
// what lies at kInt4XSumAt.
HYDRANT_INLINE F16 AddGroup(I16 dot, const void* x_scales, F16 scale, F16 zero, F16 y) {
  static_assert(kInt4XSumAt == kInt4XScaleAt + sizeof(float));
  const auto* values = static_cast<const LooseFloat*>(x_scales);
  y = FusedMultiplyAdd(BroadcastF(values) * scale, ToFloat(dot), y);
  return FusedMultiplyAdd(zero, BroadcastF(values + 1), y);
}

struct Int4Step {
#if defined(__AVX512F__)
  static constexpr int kMaxRows = 6;
#elif defined(__AVX2__)
  static constexpr int kMaxRows = 2;
#else
  static constexpr int kMaxRows = 1;
#endif
  template <int kRows>
  HYDRANT_INLINE void Run(const LinearArgs& args, const uint8_t* tile, int64_t column,
                          int64_t row) {
    F16 y[kRows][kTileVectors];
    HYDRANT_UNROLL for (int m = 0; m < kRows; ++m) {
      HYDRANT_UNROLL for (int n = 0; n < kTileVectors; ++n) y[m][n] = ZeroF();
    }
    const uint8_t* x = args.x + row * args.x_stride;
    for (int64_t k = 0; k < args.cols; k += kInt4Group, x += kInt4XBytes) {
      HYDRANT_UNROLL for (int n = 0; n < kTileVectors; ++n, tile += kInt4WeightBytes) {
        I16 sum[kRows];
        HYDRANT_UNROLL for (int m = 0; m < kRows; ++m) sum[m] = ZeroI();
        HYDRANT_UNROLL for (int c = 0; c < kInt4Words; ++c) {
          const I16 words = LoadI(tile + c * 64);
          const I16 low = LowLevels(words), high = HighLevels(words);
          HYDRANT_UNROLL for (int m = 0; m < kRows; ++m) {
            const uint8_t* values = x + m * args.x_stride + 8 * c;
            sum[m] = DotLevels(low, values, sum[m]);
            sum[m] = DotLevels(high, values + 4, sum[m]);
          }
        }
        // For any number of rows: it costs little beside the arithmetic of a group.
        HYDRANT_UNROLL for (int64_t at = 0; at < kInt4WeightBytes; at += 64) {
          __builtin_prefetch(tile + kPrefetchBytes + at);
        }
        const F16 scale = LoadFiniteF16(tile + kInt4ScalesAt);
        const F16 zero = LoadFiniteF16(tile + kInt4ZerosAt);
        HYDRANT_UNROLL for (int m = 0; m < kRows; ++m) {
          const uint8_t* x_scales = x + m * args.x_stride + kInt4XScaleAt;
          y[m][n] = AddGroup(LevelSum(sum[m]), x_scales, scale, zero, y[m][n]);
        }
      }
    }
    HYDRANT_UNROLL for (int m = 0; m < kRows; ++m) {
      HYDRANT_UNROLL for (int n = 0; n < kTileVectors; ++n) {
        Finish(args, row + m, column + n * kLanes, y[m][n]);
      }
    }
  }
};

// One group: QuantizeInt8Row for a length known beforehand, which takes half the time.
HYDRANT_INLINE void QuantizeXGroup(F16 first, F16 last, uint8_t* to) {
  static_assert(kInt4Group == 2 * kLanes);
  const float absmax = ReduceMax(Max(Abs(last), Max(Abs(first), ZeroF())));
  float scale = 0.0f, scaled = 0.0f;
  if (absmax >= kSmallestInt8AbsMax) {
    const F16 inverse = SetF(127.0f / absmax);
    const I16 a = QuantizeLanes(first, inverse), b = QuantizeLanes(last, inverse);
    StoreI8(reinterpret_cast<int8_t*>(to), a);
    StoreI8(reinterpret_cast<int8_t*>(to) + kLanes, b);
    scale = absmax / 127.0f;
    // Small integers: their sum is exact in f32, too.
    scaled = scale * ReduceAdd(ToFloat(a + b));
  } else {
    __builtin_memset(to, 0, kInt4Group);
  }
  __builtin_memcpy(to + kInt4XScaleAt, &scale, sizeof(scale));
  __builtin_memcpy(to + kInt4XSumAt, &scaled, sizeof(scaled));
}

// See KernelTable::quantize_groups.
static void QuantizeXGroups(const float* x, int64_t cols, void* out) {
  uint8_t* to = static_cast<uint8_t*>(out);
  int64_t k = 0;
  for (; k + kInt4Group <= cols; k += kInt4Group, to += kInt4XBytes) {
    QuantizeXGroup(LoadF(x + k), LoadF(x + k + kLanes), to);
  }
  if (k < cols) {
    float padded[kInt4Group] = {};
    __builtin_memcpy(padded, x + k, (cols - k) * sizeof(float));
    QuantizeXGroup(LoadF(padded), LoadF(padded + kLanes), to);
  }
}

}  // namespace hydrant::kernels::cpu::HYDRANT_ISA

#endif  // HYDRANT_KERNELS_CPU_ISA_INT4_LINEAR_H_
