// Small ops on single rows: rotary embedding, norms, activations, and writing one slot of the KV
// cache.

#ifndef HYDRANT_KERNELS_CPU_ISA_ROWS_H_
#define HYDRANT_KERNELS_CPU_ISA_ROWS_H_

#include "kernels/cpu/isa/exp.h"
#include "kernels/cpu/isa/grouped.h"
#include "kernels/cpu/isa/kernel_table.h"
#include "kernels/cpu/isa/lanes.h"
#include "kernels/cpu/isa/quantize.h"
#include "kernels/cpu/isa/simd.h"

namespace hydrant::kernels::cpu::HYDRANT_ISA {

static void RotateHeads(float* x, int64_t heads, int64_t head_dim, int64_t half, const float* cos,
                        const float* sin) {
  for (int64_t h = 0; h < heads; ++h, x += head_dim) {
    int64_t i = 0;
    for (; i + kLanes <= half; i += kLanes) {
      const F16 c = LoadF(cos + i), s = LoadF(sin + i);
      const F16 a = LoadF(x + i), b = LoadF(x + half + i);
      StoreF(x + i, a * c - b * s);
      StoreF(x + half + i, b * c + a * s);
    }
    for (; i < half; ++i) {
      const float a = x[i], b = x[half + i];
      x[i] = a * cos[i] - b * sin[i];
      x[half + i] = b * cos[i] + a * sin[i];
    }
  }
}

static void StoreSlotF32(const SlotArgs& args) {
  float* k = reinterpret_cast<float*>(args.block) + args.place;
  for (int32_t d = 0; d < args.head_dim; ++d) k[d * 16] = args.key[d];
  const int32_t padded = (args.head_dim + 15) / 16 * 16;
  __builtin_memcpy(reinterpret_cast<float*>(args.block + args.at.values) + args.place * padded,
                   args.value, args.head_dim * sizeof(float));
}

static void StoreSlotBF16(const SlotArgs& args) {
  const int32_t place = args.place;
  const int32_t padded = (args.head_dim + 15) / 16 * 16;
  uint8_t* k = args.block + place * 4;
  uint16_t* v =
      reinterpret_cast<uint16_t*>(args.block + args.at.values) + place / 2 * padded * 2 + place % 2;
  for (int32_t d = 0; d < args.head_dim; d += kLanes) {
    const int32_t count = args.head_dim - d < kLanes ? args.head_dim - d : kLanes;
    uint16_t lanes[kLanes];
    StoreBF16(lanes, LoadUpTo(args.key + d, count));
    // What is missing in the last pair is 0.
    for (int32_t i = 0; i < count; i += 2) {
      __builtin_memcpy(k + (d + i) / 2 * 64, lanes + i, 2 * sizeof(uint16_t));
    }
    const F16 value = LoadUpTo(args.value + d, count);
    if (count == kLanes) {
      StoreEveryOtherBF16(v + d * 2, value);
    } else {
      StoreBF16(lanes, value);
      for (int32_t i = 0; i < count; ++i) v[(d + i) * 2] = lanes[i];
    }
  }
}

// x as QuantizeInt8 has it: on_values(d, values, count) for channels [d, d + count), zeros in the
// lanes from count on. Gives the scale.
template <typename OnValues>
HYDRANT_INLINE float QuantizeHead(const float* x, int32_t head_dim, const OnValues& on_values) {
  const float absmax = AbsMax(x, head_dim);
  const bool vanishes = !(absmax >= kSmallestInt8AbsMax);
  const F16 inverse = SetF(127.0f / absmax);
  for (int32_t d = 0; d < head_dim; d += kLanes) {
    const int32_t count = head_dim - d < kLanes ? head_dim - d : kLanes;
    const F16 v = LoadUpTo(x + d, count);
    on_values(d, vanishes ? ZeroI() : QuantizeLanes(v, inverse), count);
  }
  return vanishes ? 0.0f : absmax / 127.0f;
}

static void StoreSlotInt8(const SlotArgs& args) {
  const int32_t padded = (args.head_dim + 15) / 16 * 16;
  uint8_t* key = args.block + args.place * 4;
  int8_t* value = reinterpret_cast<int8_t*>(args.block + args.at.values) +
                  args.place / 4 * padded * 4 + args.place % 4;
  reinterpret_cast<float*>(args.block + args.at.key_scales)[args.place] =
      QuantizeHead(args.key, args.head_dim, [&](int32_t d, I16 values, int32_t count) {
        int8_t lanes[kLanes];
        StoreI8(lanes, values);
        for (int32_t i = 0; i < count; i += 4)
          __builtin_memcpy(key + (d + i) / 4 * 64, lanes + i, 4);
      });
  reinterpret_cast<float*>(args.block + args.at.value_scales)[args.place] =
      QuantizeHead(args.value, args.head_dim, [&](int32_t d, I16 values, int32_t count) {
        if (count == kLanes) return StoreEveryFourthI8(value + d * 4, values);
        int8_t lanes[kLanes];
        StoreI8(lanes, values);
        for (int32_t i = 0; i < count; ++i) value[(d + i) * 4] = lanes[i];
      });
}

// Rotates x and quantises it as QuantizeGroups has it: on_group(g, range) for each group,
// on_levels(d, lanes, count) for channels [d, d + count).
template <int kBits, typename OnGroup, typename OnLevels>
HYDRANT_INLINE void RotateAndQuantize(const SlotArgs& args, float* x, const OnGroup& on_group,
                                      const OnLevels& on_levels) {
  constexpr float kMaxLevel = (1 << kBits) - 1;
  RotateHead(args, x, x);
  for (int32_t begin = 0; begin < args.head_dim; begin += kKvGroup) {
    const int32_t end = begin + kKvGroup < args.head_dim ? begin + kKvGroup : args.head_dim;
    F16 smallest = SetF(x[begin]), largest = smallest;
    for (int32_t d = begin; d < end; d += kLanes) {
      // What is missing in the last vector stands for its first number.
      const int32_t count = end - d < kLanes ? end - d : kLanes;
      const I16 there = LaneIndex() < SetI(count);
      const F16 v = Select(there, LoadUpTo(x + d, count), SetF(x[d]));
      largest = Max(v, largest);
      smallest = Select(v < smallest, v, smallest);
    }
    const GroupRange range =
        MakeGroupRange(0.0f - ReduceMax(ZeroF() - smallest), ReduceMax(largest), kMaxLevel);
    on_group(begin / kKvGroup, range);
    const float scale = RangeNumber(range.scale);
    const F16 zero = SetF(RangeNumber(range.zero));
    const F16 inverse = SetF(scale >= kSmallestInt8AbsMax ? 1.0f / scale : 0.0f);
    for (int32_t d = begin; d < end; d += kLanes) {
      const int32_t count = end - d < kLanes ? end - d : kLanes;
      const F16 level = RoundSmall((LoadUpTo(x + d, count) - zero) * inverse);
      // Written so that NaN, which compares false, ends inside the range too.
      const F16 low = Select(ZeroF() < level, level, ZeroF());
      int32_t lanes[kLanes];
      StoreI(lanes, ToInt(Select(low < SetF(kMaxLevel), low, SetF(kMaxLevel))));
      on_levels(d, lanes, count);
    }
  }
}

template <int kKeyBits, int kValueBits>
static void StoreSlotGrouped(const SlotArgs& args) {
  constexpr int kPerByte = 8 / kValueBits;
  const int32_t groups = (args.head_dim + kKvGroup - 1) / kKvGroup;
  uint8_t* keys = args.block + args.place;
  const int32_t key_bytes = KeySlotBytes(args.head_dim, kKeyBits);
  for (int32_t i = 0; i < key_bytes; ++i) keys[i * kLanes] = 0;
  uint16_t* key_ranges = reinterpret_cast<uint16_t*>(args.block + args.at.key_scales) + args.place;
  RotateAndQuantize<kKeyBits>(
      args, args.key,
      [&](int32_t group, GroupRange range) {
        key_ranges[2 * group * kLanes] = range.scale;
        key_ranges[(2 * group + 1) * kLanes] = range.zero;
      },
      [&](int32_t first, const int32_t* lanes, int32_t count) {
        for (int32_t i = 0; i < count; ++i) {
          const int32_t d = first + i;
          if constexpr (kKeyBits == 4) {
            keys[d / 2 * kLanes] |= static_cast<uint8_t>(lanes[i] << d % 2 * 4);
          } else if (d % 4 < 3) {
            keys[(d / 4 * 3 + d % 4) * kLanes] |= static_cast<uint8_t>(lanes[i]);
          } else {
            for (int32_t part = 0; part < 3; ++part) {
              keys[(d / 4 * 3 + part) * kLanes] |=
                  static_cast<uint8_t>((lanes[i] >> 2 * part & 3) << 6);
            }
          }
        }
      });

  const int32_t value_bytes = ValueSlotBytes(args.head_dim, kValueBits);
  uint8_t* values = args.block + args.at.values + args.place * value_bytes;
  for (int32_t i = 0; i < value_bytes; ++i) values[i] = 0;
  uint16_t* value_ranges =
      reinterpret_cast<uint16_t*>(args.block + args.at.value_scales) + 2 * args.place * groups;
  RotateAndQuantize<kValueBits>(
      args, args.value,
      [&](int32_t group, GroupRange range) {
        value_ranges[2 * group] = range.scale;
        value_ranges[2 * group + 1] = range.zero;
      },
      [&](int32_t first, const int32_t* lanes, int32_t count) {
        uint8_t* to = values + first / (kLanes * kPerByte) * kLanes;
        const int32_t shift = first / kLanes % kPerByte * kValueBits;
        for (int32_t i = 0; i < count; ++i) to[i] |= static_cast<uint8_t>(lanes[i] << shift);
      });
}

static void RmsNorm(const float* x, const float* weight, float eps, int64_t cols, float* y) {
  F16 sum = ZeroF();
  int64_t k = 0;
  for (; k + kLanes <= cols; k += kLanes) {
    const F16 v = LoadF(x + k);
    sum = Fma(v, v, sum);
  }
  if (k < cols) {
    const F16 v = LoadPartial(x + k, cols - k);
    sum = Fma(v, v, sum);
  }
  const float mean = ReduceAdd(sum) / static_cast<float>(cols);
  const float inverse = 1.0f / __builtin_sqrtf(mean + eps);
  const F16 factor = SetF(inverse);
  for (k = 0; k + kLanes <= cols; k += kLanes) {
    StoreF(y + k, LoadF(x + k) * factor * LoadF(weight + k));
  }
  for (; k < cols; ++k) y[k] = x[k] * inverse * weight[k];
}

static void LayerNorm(const float* x, const float* weight, const float* bias, float eps,
                      int64_t cols, float* y) {
  const int64_t whole = cols / kLanes * kLanes;
  F16 sum = ZeroF();
  for (int64_t k = 0; k < whole; k += kLanes) sum = sum + LoadF(x + k);
  if (whole < cols) sum = sum + LoadPartial(x + whole, cols - whole);
  const float mean = ReduceAdd(sum) / static_cast<float>(cols);
  const F16 means = SetF(mean);
  F16 squares = ZeroF();
  for (int64_t k = 0; k < whole; k += kLanes) {
    const F16 v = LoadF(x + k) - means;
    squares = Fma(v, v, squares);
  }
  float rest = 0.0f;
  for (int64_t k = whole; k < cols; ++k) rest += (x[k] - mean) * (x[k] - mean);
  const float variance = (ReduceAdd(squares) + rest) / static_cast<float>(cols);
  const float inverse = 1.0f / __builtin_sqrtf(variance + eps);
  const F16 factor = SetF(inverse);
  for (int64_t k = 0; k < whole; k += kLanes) {
    StoreF(y + k, Fma((LoadF(x + k) - means) * factor, LoadF(weight + k), LoadF(bias + k)));
  }
  for (int64_t k = whole; k < cols; ++k) y[k] = (x[k] - mean) * inverse * weight[k] + bias[k];
}

static void AddRow(const float* x, int64_t n, float* y) {
  for (int64_t i = 0; i < n; ++i) y[i] += x[i];
}

static void ScaleRow(float* x, int64_t n, float factor) {
  for (int64_t i = 0; i < n; ++i) x[i] *= factor;
}

HYDRANT_INLINE F16 Silu(F16 x) { return x / (SetF(1.0f) + Exp(ZeroF() - x)); }

// x/2 (1 + tanh(u)) with tanh(u) = 1 - 2 / (e^2u + 1), u = sqrt(2/pi) (x + 0.044715 x^3)
HYDRANT_INLINE F16 GeluTanh(F16 x) {
  const F16 u2 = SetF(1.5957691216057308f) * (x + SetF(0.044715f) * x * x * x);
  const F16 tanh = SetF(1.0f) - SetF(2.0f) / (Exp(u2) + SetF(1.0f));
  return SetF(0.5f) * x * (SetF(1.0f) + tanh);
}

HYDRANT_INLINE F16 Gelu(F16 x) {
  float lanes[kLanes];
  StoreF(lanes, x);
  for (int i = 0; i < kLanes; ++i) {
    lanes[i] = 0.5f * lanes[i] * (1.0f + __builtin_erff(lanes[i] * 0.70710678118654752f));
  }
  return LoadF(lanes);
}

HYDRANT_INLINE F16 Relu(F16 x) { return Max(x, ZeroF()); }

// A whole row, alone and multiplied by a second one.
#define HYDRANT_ACTIVATION(function)                                                         \
  static void function##Row(float* x, int64_t n) {                                           \
    int64_t i = 0;                                                                           \
    for (; i + kLanes <= n; i += kLanes) StoreF(x + i, function(LoadF(x + i)));              \
    if (i < n) StorePartial(x + i, function(LoadPartial(x + i, n - i)), n - i);              \
  }                                                                                          \
  static void Gated##function(const float* gate, const float* up, int64_t n, float* y) {     \
    int64_t i = 0;                                                                           \
    for (; i + kLanes <= n; i += kLanes) {                                                   \
      StoreF(y + i, function(LoadF(gate + i)) * LoadF(up + i));                              \
    }                                                                                        \
    if (i < n) {                                                                             \
      const int64_t left = n - i;                                                            \
      StorePartial(y + i, function(LoadPartial(gate + i, left)) * LoadPartial(up + i, left), \
                   left);                                                                    \
    }                                                                                        \
  }
HYDRANT_ACTIVATION(Silu)
HYDRANT_ACTIVATION(Gelu)
HYDRANT_ACTIVATION(GeluTanh)
HYDRANT_ACTIVATION(Relu)
#undef HYDRANT_ACTIVATION

}  // namespace hydrant::kernels::cpu::HYDRANT_ISA

#endif  // HYDRANT_KERNELS_CPU_ISA_ROWS_H_
