// int4 linear layers: the arithmetic of kernels/quantization.h, in the layout of int4_layout.h.

#ifndef HYDRANT_KERNELS_CPU_ISA_INT4_LINEAR_H_
#define HYDRANT_KERNELS_CPU_ISA_INT4_LINEAR_H_

#include "kernels/cpu/isa/int4_layout.h"
#include "kernels/cpu/isa/int4_levels.h"
#include "kernels/cpu/isa/linear.h"
#include "kernels/cpu/isa/quantize.h"

namespace hydrant::kernels::cpu::HYDRANT_ISA {

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
          const uint8_t* group = x + m * args.x_stride;
          const F16 x_scale = AsF(BroadcastWord(group + kInt4XScaleAt));
          const F16 x_sum = AsF(BroadcastWord(group + kInt4XSumAt));
          y[m][n] = FusedMultiplyAdd(x_scale * scale, ToFloat(LevelSum(sum[m])), y[m][n]);
          y[m][n] = FusedMultiplyAdd(zero, x_sum, y[m][n]);
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

// See KernelTable::quantize_groups.
static void QuantizeXGroups(const float* x, int64_t cols, void* out) {
  uint8_t* to = static_cast<uint8_t*>(out);
  for (int64_t k = 0; k < cols; k += kInt4Group, to += kInt4XBytes) {
    const int64_t count = cols - k < kInt4Group ? cols - k : kInt4Group;
    int32_t sum;
    float padded[kInt4Group] = {};
    __builtin_memcpy(padded, x + k, count * sizeof(float));
    const float scale = QuantizeInt8Row(padded, kInt4Group, reinterpret_cast<int8_t*>(to), &sum);
    const float scaled = scale * static_cast<float>(sum);
    __builtin_memcpy(to + kInt4XScaleAt, &scale, sizeof(scale));
    __builtin_memcpy(to + kInt4XSumAt, &scaled, sizeof(scaled));
  }
}

}  // namespace hydrant::kernels::cpu::HYDRANT_ISA

#endif  // HYDRANT_KERNELS_CPU_ISA_INT4_LINEAR_H_
