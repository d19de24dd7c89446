// Attention of a strip of query rows over a sequence's slots, in two passes: all scores and their
// maximum, then the exponentials and the weighted sum of the values. For each row there is one
// order of additions (keys and values in slot order, the softmax sum by lane and then over lanes),
// whatever else is in the strip; so decode and prefill, and any cut into chunks, agree bit by bit.
// That the whole row of probabilities is at hand also makes exact H2O scores nearly free.

#ifndef HYDRANT_KERNELS_CPU_ISA_ATTENTION_H_
#define HYDRANT_KERNELS_CPU_ISA_ATTENTION_H_

#include "kernels/cpu/isa/exp.h"
#include "kernels/cpu/isa/kernel_table.h"
#include "kernels/cpu/isa/kv_readers.h"
#include "kernels/cpu/isa/lanes.h"
#include "kernels/cpu/isa/quantize.h"
#include "kernels/cpu/isa/simd.h"

namespace hydrant::kernels::cpu::HYDRANT_ISA {

#if defined(__AVX512F__)
inline constexpr int kStripRows = 6;
#elif defined(__AVX2__)
inline constexpr int kStripRows = 4;
#else
inline constexpr int kStripRows = 2;
#endif
static_assert(kStripRows <= kMaxStripRows);
// A strip this low is bound by memory: blocks are asked for this many ahead.
inline constexpr int kPrefetchStripRows = 4;
inline constexpr int kPrefetchBlocks = 8;

HYDRANT_INLINE void PrefetchLines(const uint8_t* from, int64_t bytes) {
  for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(from + at);
}

// With the scales; those of the values are needed first.
HYDRANT_INLINE void PrefetchKeys(const StripArgs& args, const uint8_t* block) {
  PrefetchLines(block, args.at.values);
  __builtin_prefetch(block + args.at.value_scales);
}
HYDRANT_INLINE void PrefetchValues(const StripArgs& args, const uint8_t* block) {
  PrefetchLines(block + args.at.values, args.at.value_scales - args.at.values);
}

// In the pass over the keys (values), at block b: asks for the keys (values) of a later block, and
// at the end for the first of those that follow: the values (the keys of the next strip).
HYDRANT_INLINE void PrefetchInKeys(const StripArgs& args, int64_t b, int64_t blocks) {
  const int64_t ahead = b + kPrefetchBlocks;
  if (ahead < blocks) {
    PrefetchKeys(args, args.kv + args.blocks[ahead] * args.block_bytes);
  } else if (ahead - blocks < blocks) {
    PrefetchValues(args, args.kv + args.blocks[ahead - blocks] * args.block_bytes);
  }
}
HYDRANT_INLINE void PrefetchInValues(const StripArgs& args, int64_t b, int64_t blocks) {
  const int64_t ahead = b + kPrefetchBlocks;
  if (ahead < blocks) {
    PrefetchValues(args, args.kv + args.blocks[ahead] * args.block_bytes);
  } else if (ahead - blocks < args.next_count) {
    PrefetchKeys(args, args.next_kv + args.next_blocks[ahead - blocks] * args.block_bytes);
  }
}

template <typename Kv>
HYDRANT_INLINE void PrepareQueries(const StripArgs& args, int64_t padded,
                                   typename Kv::Operand* queries) {
  for (int r = 0; r < args.count; ++r) {
    typename Kv::Operand* to = queries + r * padded;
    int64_t d = 0;
    if constexpr (Kv::kGrouped) {
      for (; d < padded; d += kLanes) StoreF(to + d, ZeroF());
      RotateHead(args, args.query[r], to);
      continue;
    }
    for (; d + kLanes <= args.head_dim; d += kLanes) Kv::Store(to + d, LoadF(args.query[r] + d));
    if (d < args.head_dim) {
      Kv::Store(to + d, LoadPartial(args.query[r] + d, args.head_dim - d));
    }
  }
}

// Scores of the 16 slots of block b that row r must not see become -infinity.
HYDRANT_INLINE F16 Mask(const StripArgs& args, int r, int64_t b, F16 score) {
  const int64_t slot = b * kSlots;
  const int32_t* positions =
      args.positions == nullptr ? nullptr : args.positions + int64_t{args.blocks[b]} * kSlots;
  I16 visible = (LaneIndex() + SetI(static_cast<int32_t>(slot))) < SetI(args.limit[r]);
  if (positions != nullptr) {
    visible = visible & (LoadI(positions) > SetI(args.first_visible[r] - 1));
  }
  return Select(visible, score, SetF(-__builtin_inff()));
}

// sum[r][j] grows by the products of query r with the 16 keys of block j, channels in order.
// `ahead` are the blocks to ask for.
template <typename Kv, int kRows>
HYDRANT_INLINE void AddDots(const StripArgs& args, int64_t padded,
                            const typename Kv::Operand* queries, const uint8_t* const* keys,
                            const uint8_t* const* ahead, F16 (&sum)[kRows][Kv::kKeyBlocks]) {
  constexpr int kKeyBlocks = Kv::kKeyBlocks;
  const int64_t steps = (args.head_dim + Kv::kPerStep - 1) / Kv::kPerStep;
  for (int64_t step = 0; step < steps; ++step) {
    typename Kv::Vector key[kKeyBlocks];
    HYDRANT_UNROLL for (int j = 0; j < kKeyBlocks; ++j) {
      const int64_t at = step * kLanes * Kv::kLaneBytes;
      key[j] = Kv::Load(keys[j] + at);
      if constexpr (kRows <= kPrefetchStripRows) {
        if (BeginsLine<Kv>(step)) __builtin_prefetch(ahead[j] + at);
      }
    }
    HYDRANT_UNROLL for (int u = 0; u < Kv::kUnits; ++u) {
      decltype(Kv::Unit(key[0], u)) unit[kKeyBlocks];
      HYDRANT_UNROLL for (int j = 0; j < kKeyBlocks; ++j) unit[j] = Kv::Unit(key[j], u);
      HYDRANT_UNROLL for (int r = 0; r < kRows; ++r) {
        const auto query = Kv::Broadcast(queries + r * padded + step * Kv::kPerStep + u);
        HYDRANT_UNROLL for (int j = 0; j < kKeyBlocks; ++j) {
          sum[r][j] = Kv::Dot(unit[j], query, sum[r][j]);
        }
      }
    }
  }
}

// The same for grouped keys.
template <typename Kv, int kRows>
HYDRANT_INLINE void AddGroupedDots(const StripArgs& args, int64_t padded, const float* queries,
                                   const uint8_t* const* keys, const uint8_t* const* ahead,
                                   F16 (&sum)[kRows][Kv::kKeyBlocks]) {
  constexpr int kKeyBlocks = Kv::kKeyBlocks;
  constexpr int kUnit = Kv::kKeyUnit;
  for (int64_t begin = 0; begin < args.head_dim; begin += kKvGroup) {
    const int64_t left = args.head_dim - begin;
    const int64_t units = ((left < kKvGroup ? left : kKvGroup) + kUnit - 1) / kUnit;
    F16 scale[kKeyBlocks], zero[kKeyBlocks];
    HYDRANT_UNROLL for (int j = 0; j < kKeyBlocks; ++j) {
      const uint8_t* range = keys[j] + args.at.key_scales + begin / kKvGroup * 4 * kSlots;
      scale[j] = LoadBF16(range);
      zero[j] = LoadBF16(range + 2 * kSlots);
    }
    for (int64_t unit = 0; unit < units; ++unit) {
      const int64_t channel = begin + unit * kUnit;
      const int64_t at = channel / kUnit * Kv::kKeyUnitBytes * kSlots;
      I16 levels[kKeyBlocks][kUnit];
      HYDRANT_UNROLL for (int j = 0; j < kKeyBlocks; ++j) {
        Kv::LoadKeys(keys[j] + at, levels[j]);
        if constexpr (kRows <= kPrefetchStripRows) __builtin_prefetch(ahead[j] + at);
      }
      // Channels past the head's end meet queries of 0.
      HYDRANT_UNROLL for (int u = 0; u < kUnit; ++u) {
        F16 key[kKeyBlocks];
        HYDRANT_UNROLL for (int j = 0; j < kKeyBlocks; ++j) {
          key[j] = Fma(ToFloat(levels[j][u]), scale[j], zero[j]);
        }
        HYDRANT_UNROLL for (int r = 0; r < kRows; ++r) {
          const F16 query = SetF(queries[r * padded + channel + u]);
          HYDRANT_UNROLL for (int j = 0; j < kKeyBlocks; ++j) {
            sum[r][j] = Fma(key[j], query, sum[r][j]);
          }
        }
      }
    }
  }
}

// Scaled scores of all slots into args.probabilities, the largest of each row into `largest`.
template <typename Kv, int kRows>
HYDRANT_INLINE void Scores(const StripArgs& args, int64_t padded,
                           const typename Kv::Operand* queries, F16* largest) {
  constexpr int kKeyBlocks = Kv::kKeyBlocks;
  const int64_t blocks = (args.limit[kRows - 1] + kSlots - 1) / kSlots;
  const F16 scale = SetF(args.scale);
  F16 most[kRows];
  HYDRANT_UNROLL for (int r = 0; r < kRows; ++r) most[r] = SetF(-__builtin_inff());
  for (int64_t b = 0; b < blocks; b += kKeyBlocks) {
    const uint8_t* keys[kKeyBlocks];
    const uint8_t* ahead[kKeyBlocks];
    HYDRANT_UNROLL for (int j = 0; j < kKeyBlocks; ++j) {
      const int64_t block = b + j < blocks ? b + j : blocks - 1;
      keys[j] = args.kv + args.blocks[block] * args.block_bytes;
      const int64_t next = block + kPrefetchBlocks < blocks ? block + kPrefetchBlocks : blocks - 1;
      ahead[j] = args.kv + args.blocks[next] * args.block_bytes;
    }
    F16 sum[kRows][kKeyBlocks];
    HYDRANT_UNROLL for (int r = 0; r < kRows; ++r) {
      HYDRANT_UNROLL for (int j = 0; j < kKeyBlocks; ++j) sum[r][j] = ZeroF();
    }
    if constexpr (Kv::kGrouped) {
      AddGroupedDots<Kv, kRows>(args, padded, queries, keys, ahead, sum);
    } else {
      AddDots<Kv, kRows>(args, padded, queries, keys, ahead, sum);
    }
    const bool whole = (b + kKeyBlocks) * kSlots <= args.limit[0] && args.positions == nullptr;
    HYDRANT_UNROLL for (int r = 0; r < kRows; ++r) {
      HYDRANT_UNROLL for (int j = 0; j < kKeyBlocks; ++j) {
        if (b + j >= blocks) continue;
        F16 score = sum[r][j] * scale;
        if constexpr (Kv::kScaled) score = score * KeyScales(args, b + j);
        if (!whole) score = Mask(args, r, b + j, score);
        most[r] = Max(score, most[r]);
        StoreF(args.probabilities + r * args.stride + (b + j) * kSlots, score);
      }
    }
  }
  HYDRANT_UNROLL for (int r = 0; r < kRows; ++r) largest[r] = most[r];
}

// The softmax's terms of row r, of the scaled scores in args.probabilities.
template <typename Kv>
HYDRANT_INLINE void Exponentials(StripArgs& args, int r, F16 largest) {
  const int64_t slots = (args.limit[args.count - 1] + kSlots - 1) / kSlots * kSlots;
  const auto as_operand = [&](int64_t s, F16 e) {
    // Of what is not attended to, the scale could be anything.
    if constexpr (Kv::kScaled) {
      return Select(e > ZeroF(), e * ValueScales(args, s / kSlots), ZeroF());
    }
    return e;
  };
  float* row = args.probabilities + r * args.stride;
  auto* narrow = static_cast<typename Kv::Operand*>(args.narrow) + r * args.stride;
  args.reference[r] = ReduceMax(largest);
  const F16 most = SetF(args.reference[r]);
  F16 sum = ZeroF();
  if (Kv::kNarrow && !args.keep_probabilities) {
    for (int64_t s = 0; s < slots; s += kLanes) {
      const F16 e = Exp(LoadF(row + s) - most);
      sum = sum + e;
      Kv::Store(narrow + s, as_operand(s, e));
    }
  } else {
    for (int64_t s = 0; s < slots; s += kLanes) {
      const F16 e = Exp(LoadF(row + s) - most);
      sum = sum + e;
      StoreF(row + s, e);
      if constexpr (Kv::kNarrow) Kv::Store(narrow + s, as_operand(s, e));
    }
  }
  args.inverse_sum[r] = 1.0f / ReduceAdd(sum);
}

template <typename Kv, int kRows>
static __attribute__((noinline)) void AttendKeysRows(StripArgs& args) {
  const int64_t padded = PadHeadDim(args.head_dim);
  auto* queries = reinterpret_cast<typename Kv::Operand*>(args.query_scratch);
  PrepareQueries<Kv>(args, padded, queries);
  F16 largest[kRows];
  Scores<Kv, kRows>(args, padded, queries, largest);
  for (int r = 0; r < kRows; ++r) Exponentials<Kv>(args, r, largest[r]);
}

// 16 outputs of row r from `column` on, of the weighted sums of values.
HYDRANT_INLINE void StoreOutput(const StripArgs& args, int r, int64_t column, F16 sum) {
  const F16 v = sum * SetF(args.inverse_sum[r]);
  if (column + kLanes <= args.head_dim) {
    StoreF(args.out[r] + column, v);
  } else {
    StorePartial(args.out[r] + column, v, args.head_dim - column);
  }
}

// kVectors * 16 outputs from `column` on.
template <typename Kv, int kRows, int kVectors>
static __attribute__((noinline)) void AttendValuesColumns(const StripArgs& args, int64_t column) {
  constexpr int kSteps = kSlots / Kv::kPerStep;  // of a block
  constexpr int kVectorBytes = kLanes * Kv::kLaneBytes;
  const int64_t step_bytes = ValueStepBytes<Kv>(args.head_dim);
  const typename Kv::Operand* probabilities =
      Kv::kNarrow ? static_cast<const typename Kv::Operand*>(args.narrow)
                  : reinterpret_cast<const typename Kv::Operand*>(args.probabilities);
  const int64_t blocks = (args.limit[kRows - 1] + kSlots - 1) / kSlots;
  F16 sum[kRows][kVectors];
  HYDRANT_UNROLL for (int r = 0; r < kRows; ++r) {
    HYDRANT_UNROLL for (int n = 0; n < kVectors; ++n) sum[r][n] = ZeroF();
  }
  // Slots that every row sees, in whole steps.
  const int64_t common = args.limit[0] / Kv::kPerStep;
  for (int64_t step = 0; step < common; step += kSteps) {
    const int64_t block = step / kSteps;
    const uint8_t* from = args.kv + args.blocks[block] * args.block_bytes;
    const int64_t next = block + kPrefetchBlocks < blocks ? block + kPrefetchBlocks : blocks - 1;
    const uint8_t* ahead = args.kv + args.blocks[next] * args.block_bytes + args.at.values;
    if constexpr (!Kv::kGrouped) ahead += column * Kv::kLaneBytes;
    const int64_t steps = common - step < kSteps ? common - step : kSteps;
    const typename Kv::Operand* p = probabilities + step * Kv::kPerStep;
    for (int64_t t = 0; t < steps; ++t) {
      typename Kv::Vector value[kVectors];
      HYDRANT_UNROLL for (int n = 0; n < kVectors; ++n) {
        value[n] = LoadValue<Kv>(args, from, t, step_bytes, column + n * kLanes);
        if constexpr (kRows <= kPrefetchStripRows) {
          if (BeginsLine<Kv>(n)) __builtin_prefetch(ahead + n * kVectorBytes);
        }
      }
      ahead += step_bytes;
      HYDRANT_UNROLL for (int u = 0; u < Kv::kUnits; ++u) {
        decltype(Kv::Unit(value[0], u)) unit[kVectors];
        HYDRANT_UNROLL for (int n = 0; n < kVectors; ++n) unit[n] = Kv::Unit(value[n], u);
        HYDRANT_UNROLL for (int r = 0; r < kRows; ++r) {
          const auto weight = Kv::Broadcast(p + r * args.stride + t * Kv::kPerStep + u);
          HYDRANT_UNROLL for (int n = 0; n < kVectors; ++n) {
            sum[r][n] = Kv::Dot(unit[n], weight, sum[r][n]);
          }
        }
      }
    }
  }
  // The rest row by row: no slot past a row's limit is multiplied, not even by 0, since its value
  // could be anything.
  HYDRANT_UNROLL for (int r = 0; r < kRows; ++r) {
    const typename Kv::Operand* p = probabilities + r * args.stride;
    const int64_t steps = (args.limit[r] + Kv::kPerStep - 1) / Kv::kPerStep;
    for (int64_t step = common; step < steps; ++step) {
      const uint8_t* from = args.kv + args.blocks[step / kSteps] * args.block_bytes;
      const bool half = (step + 1) * Kv::kPerStep > args.limit[r];
      HYDRANT_UNROLL for (int n = 0; n < kVectors; ++n) {
        auto value = LoadValue<Kv>(args, from, step % kSteps, step_bytes, column + n * kLanes);
        if (half) value = Kv::First(value);
        HYDRANT_UNROLL for (int u = 0; u < Kv::kUnits; ++u) {
          const auto weight = Kv::Broadcast(p + step * Kv::kPerStep + u);
          sum[r][n] = Kv::Dot(Kv::Unit(value, u), weight, sum[r][n]);
        }
      }
    }
  }
  HYDRANT_UNROLL for (int r = 0; r < kRows; ++r) {
    HYDRANT_UNROLL for (int n = 0; n < kVectors; ++n) {
      StoreOutput(args, r, column + n * kLanes, sum[r][n]);
    }
  }
}

template <typename Kv, int kRows>
HYDRANT_INLINE void AttendValuesRows(const StripArgs& args) {
  const int64_t padded = PadHeadDim(args.head_dim);
  constexpr int kValueVectors = Kv::kValueVectors;
  int64_t column = 0;
  for (; column + kValueVectors * kLanes <= padded; column += kValueVectors * kLanes) {
    AttendValuesColumns<Kv, kRows, kValueVectors>(args, column);
  }
  for (; column < padded; column += kLanes) AttendValuesColumns<Kv, kRows, 1>(args, column);
  if constexpr (Kv::kGrouped) {
    for (int r = 0; r < kRows; ++r) RotateHead(args, args.out[r], args.out[r]);
  }
}

template <typename Kv, int kRows = kStripRows>
static void AttendKeys(StripArgs& args) {
  if (args.count == kRows) {
    AttendKeysRows<Kv, kRows>(args);
  } else if constexpr (kRows > 1) {
    AttendKeys<Kv, kRows - 1>(args);
  }
}

template <typename Kv, int kRows = kStripRows>
static void AttendValues(const StripArgs& args) {
  if (args.count == kRows) {
    AttendValuesRows<Kv, kRows>(args);
  } else if constexpr (kRows > 1) {
    AttendValues<Kv, kRows - 1>(args);
  }
}

// scores[slot] grows by each row's probability, rows in order.
static void AddScores(const StripArgs& args, float* scores) {
  const int64_t blocks = (args.limit[args.count - 1] + kSlots - 1) / kSlots;
  for (int64_t b = 0; b < blocks; ++b) {
    float* at = scores + int64_t{args.blocks[b]} * kSlots;
    F16 score = LoadF(at);
    const float* p = args.probabilities + b * kSlots;
    for (int r = 0; r < args.count; ++r) {
      score = Fma(LoadF(p + r * args.stride), SetF(args.inverse_sum[r]), score);
    }
    StoreF(at, score);
  }
}

}  // namespace hydrant::kernels::cpu::HYDRANT_ISA

#endif  // HYDRANT_KERNELS_CPU_ISA_ATTENTION_H_
