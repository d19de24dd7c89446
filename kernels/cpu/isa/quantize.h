// Activations and weights brought to the form that the linear kernels multiply. The int8 values are
// those of kernels/quantization.h, bit for bit: same additions in the same order, same rounding.

#ifndef HYDRANT_KERNELS_CPU_ISA_QUANTIZE_H_
#define HYDRANT_KERNELS_CPU_ISA_QUANTIZE_H_

#include "kernels/cpu/isa/bf16_pairs.h"
#include "kernels/cpu/isa/lanes.h"
#include "kernels/cpu/isa/simd.h"
#include "kernels/quantization.h"

namespace hydrant::kernels::cpu::HYDRANT_ISA {

// (a, b) = (a + b, a - b) for lanes that differ in bit kStride.
template <int kStride>
HYDRANT_INLINE F16 Butterfly(F16 v) {
  const F16 sign = Select((LaneIndex() & SetI(kStride)) > ZeroI(), SetF(-1.0f), SetF(1.0f));
  return Fma(v, sign, SwapLanes<kStride>(v));  // the product is exact, fused or not
}

HYDRANT_INLINE F16 RotateLanes(F16 v, int32_t block) {
  if (block > 1) v = Butterfly<1>(v);
  if (block > 2) v = Butterfly<2>(v);
  if (block > 4) v = Butterfly<4>(v);
  if (block > 8) v = Butterfly<8>(v);
  return v;
}

// kVectors * 16 == block, or kVectors == 1 and block <= 16. Gives the largest of |out| and
// `largest`.
template <int kVectors>
HYDRANT_INLINE F16 RotateBlock(const float* x, float* out, int32_t block, F16 normalise,
                               F16 largest) {
  F16 v[kVectors];
  HYDRANT_UNROLL for (int n = 0; n < kVectors; ++n) {
    v[n] = RotateLanes(LoadF(x + n * kLanes), block);
  }
  HYDRANT_UNROLL for (int stride = 1; stride < kVectors; stride *= 2) {
    HYDRANT_UNROLL for (int n = 0; n < kVectors; ++n) {
      if ((n & stride) != 0) continue;
      const F16 a = v[n], b = v[n + stride];
      v[n] = a + b;
      v[n + stride] = a - b;
    }
  }
  HYDRANT_UNROLL for (int n = 0; n < kVectors; ++n) {
    v[n] = v[n] * normalise;
    largest = Max(Abs(v[n]), largest);
    StoreF(out + n * kLanes, v[n]);
  }
  return largest;
}

// The largest magnitude; NaN counts for nothing.
HYDRANT_INLINE float AbsMax(const float* x, int64_t cols) {
  F16 largest = ZeroF();
  int64_t k = 0;
  for (; k + kLanes <= cols; k += kLanes) largest = Max(Abs(LoadF(x + k)), largest);
  if (k < cols) largest = Max(Abs(LoadPartial(x + k, cols - k)), largest);
  return ReduceMax(largest);
}

// Gives AbsMax(out).
static float Rotate(const float* x, int64_t cols, int32_t block, float normalise, float* out) {
  const F16 factor = SetF(normalise);
  F16 largest = ZeroF();
  int64_t k = 0;
  if (block == 64) {
    for (; k < cols; k += 64) largest = RotateBlock<4>(x + k, out + k, block, factor, largest);
  } else if (block == 32) {
    for (; k < cols; k += 32) largest = RotateBlock<2>(x + k, out + k, block, factor, largest);
  } else if (block > 1) {
    for (; k + kLanes <= cols; k += kLanes) {
      largest = RotateBlock<1>(x + k, out + k, block, factor, largest);
    }
    if (k < cols) {
      const F16 v = RotateLanes(LoadPartial(x + k, cols - k), block) * factor;
      largest = Max(Abs(v), largest);
      StorePartial(out + k, v, cols - k);
    }
  } else {
    __builtin_memcpy(out, x, cols * sizeof(float));
    return AbsMax(x, cols);
  }
  return ReduceMax(largest);
}

// A head of a key, value, query or output, by the block of its args (StripArgs, SlotArgs). `out`
// may be x.
template <typename Args>
HYDRANT_INLINE void RotateHead(const Args& args, const float* x, float* out) {
  if (args.hadamard_block == 1 && x == out) return;
  Rotate(x, args.head_dim, args.hadamard_block, args.hadamard_normalise, out);
}

HYDRANT_INLINE I16 QuantizeLanes(F16 v, F16 inverse) {
  // In this order, NaN ends inside the range, too.
  return ToInt(Min(Max(RoundSmall(v * inverse), SetF(-127.0f)), SetF(127.0f)));
}

// QuantizeInt8 of x [cols], whose AbsMax is known, and the sum of the values.
HYDRANT_INLINE float QuantizeInt8Row(const float* x, int64_t cols, float absmax, int8_t* out,
                                     int32_t* sum) {
  *sum = 0;
  if (!(absmax >= kSmallestInt8AbsMax)) {
    __builtin_memset(out, 0, cols);
    return 0.0f;
  }
  const F16 inverse = SetF(127.0f / absmax);
  I16 total = ZeroI();
  int64_t k = 0;
  for (; k + kLanes <= cols; k += kLanes) {
    const I16 values = QuantizeLanes(LoadF(x + k), inverse);
    total = total + values;
    StoreI8(out + k, values);
  }
  if (k < cols) {
    int32_t lanes[kLanes];
    StoreI(lanes, QuantizeLanes(LoadPartial(x + k, cols - k), inverse));
    for (; k < cols; ++k) {
      out[k] = static_cast<int8_t>(lanes[k % kLanes]);
      *sum += out[k];
    }
  }
  int32_t lanes[kLanes];
  StoreI(lanes, total);
  for (int i = 0; i < kLanes; ++i) *sum += lanes[i];
  return absmax / 127.0f;
}

// See KernelTable::quantize.
static float Quantize(const float* x, int64_t cols, int64_t padded, int32_t block, float normalise,
                      float* scratch, int8_t* out, int32_t* sum) {
  const float absmax = Rotate(x, cols, block, normalise, scratch);
  __builtin_memset(out + cols, 0, padded - cols);
  return QuantizeInt8Row(scratch, cols, absmax, out, sum);
}

static void RoundRowBF16(const float* x, int64_t cols, int64_t padded, uint16_t* out) {
  int64_t k = 0;
  for (; k + kLanes <= cols; k += kLanes) StoreBF16(out + k, LoadF(x + k));
  if (k < cols) {
    uint16_t lanes[kLanes];
    StoreBF16(lanes, LoadPartial(x + k, cols - k));
    for (; k < cols; ++k) out[k] = lanes[k % kLanes];
  }
  for (k = cols; k < padded; ++k) out[k] = 0;
}

static void PrepareBF16(const float* x, int64_t cols, int64_t padded, void* out) {
  NarrowF* to = static_cast<NarrowF*>(out);
  int64_t k = 0;
  for (; k + kLanes <= cols; k += kLanes) StoreNarrow(to + k, LoadF(x + k));
  if (k < cols) {
    NarrowF lanes[kLanes];
    StoreNarrow(lanes, LoadPartial(x + k, cols - k));
    for (; k < cols; ++k) to[k] = lanes[k % kLanes];
  }
  for (k = cols; k < padded; ++k) to[k] = 0;
}

}  // namespace hydrant::kernels::cpu::HYDRANT_ISA

#endif  // HYDRANT_KERNELS_CPU_ISA_QUANTIZE_H_
