// Attention of a strip of query rows over a sequence's slots, in two passes: all scores and their
// maximum, then the exponentials and the weighted sum of the values. For each row there is one
// order of additions (keys and values in slot order, the softmax sum by lane and then over lanes),
// whatever else is in the strip; so decode and prefill, and any cut into chunks, agree bit by bit.
// That the whole row of probabilities is at hand also makes exact H2O scores nearly free.
//
// Blocks of kBlockSlots slots, keys before values. Each step takes a vector of 16 lanes:
//   f32   keys [head_dim][16], values [16][padded]       one element a step
//   bf16  keys [head_dim / 2][16][2], values [8][padded][2]   a pair a step, along the reduction
//   int8  as f32, one byte an element; between keys and values the f32 scales: [16] of the keys,
//         then [16] of the values
//   int4, kivi2  see grouped.h; levels become numbers when they are loaded
// where padded is head_dim rounded up to 16; an odd head_dim is padded with zeros for bf16.

#ifndef HYDRANT_KERNELS_CPU_ISA_ATTENTION_H_
#define HYDRANT_KERNELS_CPU_ISA_ATTENTION_H_

#include "kernels/cpu/isa/bf16_pairs.h"
#include "kernels/cpu/isa/grouped.h"
#include "kernels/cpu/isa/kernel_table.h"
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
inline constexpr int kSlots = 16;
// A strip this low is bound by memory: blocks are asked for this many ahead.
inline constexpr int kPrefetchStripRows = 4;
inline constexpr int kPrefetchBlocks = 8;

// How a dtype is read and multiplied.
//   Operand        of queries and probabilities, as they are broadcast
//   kLaneBytes     of a lane of a vector, as it is stored
//   kScaled        whether keys and values have scales. A key's multiplies its score, a value's the
//                  probability: the elements are multiplied as they are
//   kGrouped       whether elements are levels in the ranges of their groups, of rotated heads
//   kNarrow        whether probabilities are stored as operands, beside the f32 ones
//   kKeyBlocks     blocks whose scores are accumulated together
//   kValueVectors  vectors of outputs that are accumulated together
struct F32Kv {
  typedef F16 Vector;
  typedef float Operand;
  static constexpr int kPerStep = 1;
  static constexpr int kLaneBytes = 4;
  static constexpr bool kScaled = false;
  static constexpr bool kGrouped = false;
  static constexpr bool kNarrow = false;
  static constexpr int kKeyBlocks = kParts == 1 ? 4 : 1;
  static constexpr int kValueVectors = kParts == 1 ? 4 : 1;
  HYDRANT_INLINE Vector Load(const void* from) { return LoadF(from); }
  HYDRANT_INLINE Vector Broadcast(const Operand* from) { return SetF(*from); }
  HYDRANT_INLINE F16 Dot(Vector a, Vector b, F16 sum) { return Fma(a, b, sum); }
  HYDRANT_INLINE Vector First(Vector v) { return v; }
  HYDRANT_INLINE void Store(Operand* to, F16 v) { StoreF(to, v); }
};

// Queries and probabilities are rounded too; without bf16 instructions they are then kept as f32.
struct BF16Kv {
  typedef BF16Pairs Vector;
  typedef NarrowF Operand;
  static constexpr int kPerStep = 2;
  static constexpr int kLaneBytes = 4;
  static constexpr bool kScaled = false;
  static constexpr bool kGrouped = false;
  static constexpr bool kNarrow = true;
  static constexpr bool kPaired = sizeof(Operand) == 2;  // a pair takes one register, not two
  static constexpr int kKeyBlocks = kPaired ? 4 : kParts == 1 ? 3 : 1;
  static constexpr int kValueVectors = kPaired ? 4 : kParts == 1 ? 2 : 1;
  HYDRANT_INLINE Vector Load(const void* from) { return LoadPairs(from); }
  HYDRANT_INLINE Vector Broadcast(const Operand* from) { return BroadcastPair(from); }
  HYDRANT_INLINE F16 Dot(Vector a, Vector b, F16 sum) { return DotPairs(a, b, sum); }
  HYDRANT_INLINE Vector First(Vector v) { return FirstOnly(v); }
  HYDRANT_INLINE void Store(Operand* to, F16 v) { StoreNarrow(to, v); }
};

struct Int8Kv {
  typedef F16 Vector;
  typedef float Operand;
  static constexpr int kPerStep = 1;
  static constexpr int kLaneBytes = 1;
  static constexpr bool kScaled = true;
  static constexpr bool kGrouped = false;
  static constexpr bool kNarrow = true;
  static constexpr int kKeyBlocks = kParts == 1 ? 4 : 1;
  static constexpr int kValueVectors = kParts == 1 ? 4 : 1;
  HYDRANT_INLINE Vector Load(const void* from) { return ToFloat(LoadI8(from)); }
  HYDRANT_INLINE Vector Broadcast(const Operand* from) { return SetF(*from); }
  HYDRANT_INLINE F16 Dot(Vector a, Vector b, F16 sum) { return Fma(a, b, sum); }
  HYDRANT_INLINE Vector First(Vector v) { return v; }
  HYDRANT_INLINE void Store(Operand* to, F16 v) { StoreF(to, v); }
};

// Of int4 and kivi2.
template <int kKeyBitsOf, int kValueBitsOf>
struct GroupedKv {
  typedef F16 Vector;
  typedef float Operand;
  static constexpr int kPerStep = 1;
  static constexpr int kLaneBytes = 1;
  static constexpr bool kScaled = false;
  static constexpr bool kGrouped = true;
  static constexpr int kKeyBits = kKeyBitsOf;
  static constexpr int kValueBits = kValueBitsOf;
  static constexpr bool kNarrow = false;
  static constexpr int kKeyBlocks = kParts == 1 ? 2 : 1;
  static constexpr int kValueVectors = kParts == 1 ? 4 : 1;
  // Channels whose keys are unpacked together, and the bytes of a slot that hold them.
  static constexpr int kKeyUnit = kKeyBits == 4 ? 2 : 4;
  static constexpr int kKeyUnitBytes = kKeyBits == 4 ? 1 : 3;
  static constexpr int kValuesPerByte = 8 / kValueBits;
  HYDRANT_INLINE Vector Broadcast(const Operand* from) { return SetF(*from); }
  HYDRANT_INLINE F16 Dot(Vector a, Vector b, F16 sum) { return Fma(a, b, sum); }
  HYDRANT_INLINE Vector First(Vector v) { return v; }
  HYDRANT_INLINE void Store(Operand* to, F16 v) { StoreF(to, v); }
  // The levels of a unit's channels, of 16 slots.
  HYDRANT_INLINE void LoadKeys(const uint8_t* from, I16 (&levels)[kKeyUnit]) {
    if constexpr (kKeyBits == 4) {
      const I16 bytes = LoadI8(from);
      levels[0] = bytes & SetI(15);
      levels[1] = ShiftRightLogical<4>(bytes) & SetI(15);
    } else {
      levels[3] = ZeroI();
      HYDRANT_UNROLL for (int part = 0; part < 3; ++part) {
        const I16 bytes = LoadI8(from + part * kSlots);
        levels[part] = bytes & SetI(63);
        const I16 upper = ShiftRightLogical<6>(bytes) & SetI(3);
        levels[3] = levels[3] | (part == 0   ? upper
                                 : part == 1 ? ShiftLeft<2>(upper)
                                             : ShiftLeft<4>(upper));
      }
    }
  }
  // 16 channels of one slot's value, from `column` on; `from` is where the slot's bytes begin.
  HYDRANT_INLINE Vector LoadValues(const uint8_t* from, const uint8_t* ranges, int64_t column) {
    const int64_t vector = column / kLanes;
    const int shift = static_cast<int>(vector % kValuesPerByte) * kValueBits;
    const I16 level = ShiftRight(LoadI8(from + vector / kValuesPerByte * kLanes), shift) &
                      SetI((1 << kValueBits) - 1);
    GroupRange range;
    __builtin_memcpy(&range, ranges + column / kKvGroup * sizeof(range), sizeof(range));
    return Fma(ToFloat(level), SetF(RangeNumber(range.scale)), SetF(RangeNumber(range.zero)));
  }
};

// The scales of the 16 keys of block `b` of the sequence, and of its values.
HYDRANT_INLINE F16 KeyScales(const StripArgs& args, int64_t b) {
  return LoadF(args.kv + args.blocks[b] * args.block_bytes + args.at.key_scales);
}
HYDRANT_INLINE F16 ValueScales(const StripArgs& args, int64_t b) {
  return LoadF(args.kv + args.blocks[b] * args.block_bytes + args.at.value_scales);
}

// Whether the vector at `index` of a run is the first in its line of the cache.
template <typename Kv>
HYDRANT_INLINE bool BeginsLine(int64_t index) {
  return index % (4 / Kv::kLaneBytes) == 0;
}

HYDRANT_INLINE int64_t PadHeadDim(int64_t head_dim) { return (head_dim + 15) / 16 * 16; }

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

// Scores of slots a row must not see become -infinity.
HYDRANT_INLINE F16 Mask(const StripArgs& args, int r, int64_t slot, const int32_t* positions,
                        F16 score) {
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
    HYDRANT_UNROLL for (int r = 0; r < kRows; ++r) {
      const auto query = Kv::Broadcast(queries + r * padded + step * Kv::kPerStep);
      HYDRANT_UNROLL for (int j = 0; j < kKeyBlocks; ++j) {
        sum[r][j] = Kv::Dot(key[j], query, sum[r][j]);
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
        if (!whole) {
          const int32_t* positions = args.positions == nullptr
                                         ? nullptr
                                         : args.positions + int64_t{args.blocks[b + j]} * kSlots;
          score = Mask(args, r, (b + j) * kSlots, positions, score);
        }
        most[r] = Max(score, most[r]);
        StoreF(args.probabilities + r * args.stride + (b + j) * kSlots, score);
      }
    }
  }
  HYDRANT_UNROLL for (int r = 0; r < kRows; ++r) largest[r] = most[r];
}

template <typename Kv, int kRows>
static __attribute__((noinline)) void AttendKeysRows(StripArgs& args) {
  const int64_t padded = PadHeadDim(args.head_dim);
  auto* queries = reinterpret_cast<typename Kv::Operand*>(args.query_scratch);
  PrepareQueries<Kv>(args, padded, queries);
  F16 largest[kRows];
  Scores<Kv, kRows>(args, padded, queries, largest);

  const int64_t slots = (args.limit[kRows - 1] + kSlots - 1) / kSlots * kSlots;
  const auto as_operand = [&](int64_t s, F16 e) {
    if constexpr (Kv::kScaled) return e * ValueScales(args, s / kSlots);
    return e;
  };
  for (int r = 0; r < kRows; ++r) {
    float* row = args.probabilities + r * args.stride;
    auto* narrow = static_cast<typename Kv::Operand*>(args.narrow) + r * args.stride;
    const F16 most = SetF(ReduceMax(largest[r]));
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
    args.largest[r] = ReduceMax(largest[r]);
    args.inverse_sum[r] = 1.0f / ReduceAdd(sum);
  }
}

// Bytes from a step's values to the next's.
template <typename Kv>
HYDRANT_INLINE int64_t ValueStepBytes(int64_t head_dim) {
  if constexpr (Kv::kGrouped) return ValueSlotBytes(head_dim, Kv::kValueBits);
  return PadHeadDim(head_dim) * Kv::kLaneBytes;
}

// The values of a step of `block`, 16 columns from `column` on. `step_bytes` is ValueStepBytes.
template <typename Kv>
HYDRANT_INLINE typename Kv::Vector LoadValue(const StripArgs& args, const uint8_t* block,
                                             int64_t step, int64_t step_bytes, int64_t column) {
  const uint8_t* from = block + args.at.values + step * step_bytes;
  if constexpr (Kv::kGrouped) {
    const int64_t range_bytes = (args.head_dim + kKvGroup - 1) / kKvGroup * sizeof(GroupRange);
    return Kv::LoadValues(from, block + args.at.value_scales + step * range_bytes, column);
  } else {
    return Kv::Load(from + column * Kv::kLaneBytes);
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
      HYDRANT_UNROLL for (int r = 0; r < kRows; ++r) {
        const auto weight = Kv::Broadcast(p + r * args.stride + t * Kv::kPerStep);
        HYDRANT_UNROLL for (int n = 0; n < kVectors; ++n) {
          sum[r][n] = Kv::Dot(value[n], weight, sum[r][n]);
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
      const auto weight = Kv::Broadcast(p + step * Kv::kPerStep);
      HYDRANT_UNROLL for (int n = 0; n < kVectors; ++n) {
        auto value = LoadValue<Kv>(args, from, step % kSteps, step_bytes, column + n * kLanes);
        if (half) value = Kv::First(value);
        sum[r][n] = Kv::Dot(value, weight, sum[r][n]);
      }
    }
  }
  HYDRANT_UNROLL for (int r = 0; r < kRows; ++r) {
    HYDRANT_UNROLL for (int n = 0; n < kVectors; ++n) {
      const int64_t at = column + n * kLanes;
      const F16 v = sum[r][n] * SetF(args.inverse_sum[r]);
      if (at + kLanes <= args.head_dim) {
        StoreF(args.out[r] + at, v);
      } else {
        StorePartial(args.out[r] + at, v, args.head_dim - at);
      }
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
