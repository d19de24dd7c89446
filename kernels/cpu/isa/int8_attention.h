// Attention over int8 keys and values in integers. What multiplies them is rounded to 16 bits and
// split into two bytes: queries, in steps of their largest, and the softmax's terms times the
// scales of their values, in steps of the largest scale. Products and sums are then exact, so that
// vectors and tiles (amx_int8_attention.h) give the same numbers, and a row's numbers depend on
// nothing but its own slots, as attention.h promises. The rounding is 1/256 of that of the keys and
// values themselves.

#ifndef HYDRANT_KERNELS_CPU_ISA_INT8_ATTENTION_H_
#define HYDRANT_KERNELS_CPU_ISA_INT8_ATTENTION_H_

#include "kernels/cpu/isa/attention.h"
#include "kernels/cpu/isa/int8_quads.h"
#include "kernels/cpu/isa/lanes.h"

#if defined(__AVX512VNNI__)

namespace hydrant::kernels::cpu::HYDRANT_ISA {

inline constexpr int kBytePlanes = 2;
// The largest query, whose upper byte is 127, and the largest weight, of unsigned bytes.
inline constexpr float kMostQuery = 127 << 8;
inline constexpr float kMostWeight = 255 << 8;
// After as many blocks, sums of products of 255 and 127 still fit in int32.
inline constexpr int64_t kSpanBlocks = 65536 / kSlots;

// How a strip's split rows lie: planes of bytes, the upper byte's first, two for each row.
HYDRANT_INLINE int8_t* QueryPlanes(const StripArgs& args, int r) {
  return reinterpret_cast<int8_t*>(args.query_scratch) +
         r * kBytePlanes * PadHeadDim(args.head_dim);
}
HYDRANT_INLINE int8_t* WeightPlanes(const StripArgs& args, int r) {
  return static_cast<int8_t*>(args.narrow) + r * kBytePlanes * args.stride;
}

HYDRANT_INLINE F16 InverseOfMost(float most, float largest) {
  return SetF(largest >= kSmallestInt8AbsMax ? most / largest : 0.0f);
}

// Sums of upper and of lower bytes' products, put together.
HYDRANT_INLINE F16 JoinBytes(I16 upper, I16 lower) {
  return Fma(ToFloat(upper), SetF(256.0f), ToFloat(lower));
}

// The queries' signed bytes; gives what makes scores of row r's sums and its keys' scales.
HYDRANT_INLINE float SplitQuery(const StripArgs& args, int r) {
  const int64_t padded = PadHeadDim(args.head_dim);
  const float absmax = AbsMax(args.query[r], args.head_dim);
  const F16 inverse = InverseOfMost(kMostQuery, absmax), most = SetF(kMostQuery);
  int8_t* to = QueryPlanes(args, r);
  for (int64_t d = 0; d < args.head_dim; d += kLanes) {
    const int64_t left = args.head_dim - d;
    const F16 v = LoadUpTo(args.query[r] + d, left < kLanes ? left : kLanes);
    const I16 whole = ToInt(Min(Max(RoundSmall(v * inverse), ZeroF() - most), most));
    StoreI8(to + d, ShiftRight(whole + SetI(128), 8));
    StoreI8(to + padded + d, whole);
  }
  return absmax / kMostQuery * args.scale;
}

// Row r's scores of block b, of its sums.
HYDRANT_INLINE F16 StoreScore(const StripArgs& args, int r, int64_t b, bool whole, F16 sum,
                              F16 factor) {
  F16 score = sum * factor * KeyScales(args, b);
  if (!whole) score = Mask(args, r, b, score);
  StoreF(args.probabilities + r * args.stride + b * kSlots, score);
  return score;
}

// The softmax's terms of row r from its scores, and their products with the values' scales as
// unsigned bytes. Gives what the sums of those are multiplied by.
template <bool kKeepProbabilities>
HYDRANT_INLINE float SplitTerms(StripArgs& args, int r, F16 largest) {
  // The largest scale of what the row may see, as terms are at most 1.
  const int64_t last = (args.limit[r] - 1) / kSlots;
  F16 scales = ZeroF();
  for (int64_t b = 0; b < last; ++b) scales = Max(ValueScales(args, b), scales);
  const I16 seen = (LaneIndex() + SetI(static_cast<int32_t>(last * kSlots))) < SetI(args.limit[r]);
  scales = Max(Select(seen, ValueScales(args, last), ZeroF()), scales);
  const float heaviest = ReduceMax(scales);
  const F16 inverse = InverseOfMost(kMostWeight, heaviest);

  args.reference[r] = ReduceMax(largest);
  const F16 from = SetF(-args.reference[r] * kLog2E), factor = SetF(kLog2E);
  float* terms = args.probabilities + r * args.stride;
  int8_t* to = WeightPlanes(args, r);
  F16 sum = ZeroF();
  const auto split = [&](int64_t b, F16 scale) __attribute__((always_inline)) {
    const F16 term = Exp2(Fma(LoadF(terms + b * kSlots), factor, from));
    sum = sum + term;
    if constexpr (kKeepProbabilities) StoreF(terms + b * kSlots, term);
    const I16 whole = ToInt(RoundSmall(term * (scale * inverse)));
    StoreI8(to + b * kSlots, ShiftRight(whole, 8));
    StoreI8(to + args.stride + b * kSlots, whole);
  };
  const int64_t end = (args.limit[args.count - 1] - 1) / kSlots;
  for (int64_t b = 0; b < end; ++b) split(b, ValueScales(args, b));
  // Past the end of what is held, a scale could be anything.
  const I16 held =
      (LaneIndex() + SetI(static_cast<int32_t>(end * kSlots))) < SetI(args.limit[args.count - 1]);
  split(end, Select(held, ValueScales(args, end), ZeroF()));
  args.inverse_sum[r] = 1.0f / ReduceAdd(sum);
  return heaviest / kMostWeight;
}

// What follows the scores: queries are done with, and in their place come the factors of
// AttendValues.
HYDRANT_INLINE void FinishKeys(StripArgs& args, const F16* largest) {
  for (int r = 0; r < args.count; ++r) {
    args.query_scratch[r] = args.keep_probabilities ? SplitTerms<true>(args, r, largest[r])
                                                    : SplitTerms<false>(args, r, largest[r]);
  }
}

template <int kRows>
static __attribute__((noinline)) void AttendKeysInt8Rows(StripArgs& args) {
  constexpr int kBlocks = kRows <= 3 ? 4 : 2;
  const int64_t blocks = (args.limit[kRows - 1] + kSlots - 1) / kSlots;
  const int64_t whole = args.positions == nullptr ? args.limit[0] / kSlots : 0;
  const int64_t padded = PadHeadDim(args.head_dim);
  const int64_t quads = (args.head_dim + 3) / 4;
  // Keys become unsigned by 128 more, which is taken off again.
  const I16 flip = SetI(static_cast<int32_t>(0x80808080u));
  F16 factor[kRows], largest[kRows];
  I16 offset[kRows][kBytePlanes];
  HYDRANT_UNROLL for (int r = 0; r < kRows; ++r) {
    factor[r] = SetF(SplitQuery(args, r));
    largest[r] = SetF(-__builtin_inff());
    for (int p = 0; p < kBytePlanes; ++p) {
      int32_t sum = 0;
      for (int64_t d = 0; d < args.head_dim; ++d) sum += QueryPlanes(args, r)[p * padded + d];
      offset[r][p] = SetI(-128 * sum);
    }
  }
  for (int64_t b = 0; b < blocks; b += kBlocks) {
    const uint8_t* keys[kBlocks];
    I16 sum[kRows][kBytePlanes][kBlocks];
    HYDRANT_UNROLL for (int j = 0; j < kBlocks; ++j) {
      const int64_t block = b + j < blocks ? b + j : blocks - 1;
      keys[j] = args.kv + args.blocks[block] * args.block_bytes;
      if (kRows <= kPrefetchStripRows && b + j < blocks) PrefetchInKeys(args, block, blocks);
      HYDRANT_UNROLL for (int r = 0; r < kRows; ++r) {
        HYDRANT_UNROLL for (int p = 0; p < kBytePlanes; ++p) sum[r][p][j] = offset[r][p];
      }
    }
    const int8_t* queries = QueryPlanes(args, 0);
    for (int64_t quad = 0; quad < quads; ++quad) {
      I16 key[kBlocks];
      HYDRANT_UNROLL for (int j = 0; j < kBlocks; ++j) {
        key[j] = LoadI(keys[j] + quad * kLanes * 4) ^ flip;
      }
      HYDRANT_UNROLL for (int r = 0; r < kRows; ++r) {
        HYDRANT_UNROLL for (int p = 0; p < kBytePlanes; ++p) {
          const I16 query = BroadcastWord(queries + (r * kBytePlanes + p) * padded + quad * 4);
          HYDRANT_UNROLL for (int j = 0; j < kBlocks; ++j) {
            sum[r][p][j] = DotQuads(key[j], query, sum[r][p][j]);
          }
        }
      }
    }
    HYDRANT_UNROLL for (int r = 0; r < kRows; ++r) {
      HYDRANT_UNROLL for (int j = 0; j < kBlocks; ++j) {
        if (b + j >= blocks) continue;
        const F16 joined = JoinBytes(sum[r][0][j], sum[r][1][j]);
        largest[r] =
            Max(StoreScore(args, r, b + j, b + kBlocks <= whole, joined, factor[r]), largest[r]);
      }
    }
  }
  FinishKeys(args, largest);
}

// kVectors * 16 outputs from `column` on.
template <int kRows, int kVectors>
static __attribute__((noinline)) void AttendValuesInt8Columns(const StripArgs& args,
                                                              int64_t column) {
  const int64_t blocks = (args.limit[kRows - 1] + kSlots - 1) / kSlots;
  const int64_t quad_bytes = PadHeadDim(args.head_dim) * 4;
  F16 total[kRows][kVectors];
  HYDRANT_UNROLL for (int r = 0; r < kRows; ++r) {
    HYDRANT_UNROLL for (int n = 0; n < kVectors; ++n) total[r][n] = ZeroF();
  }
  for (int64_t span = 0; span < blocks; span += kSpanBlocks) {
    const int64_t end = span + kSpanBlocks < blocks ? span + kSpanBlocks : blocks;
    I16 sum[kRows][kBytePlanes][kVectors];
    HYDRANT_UNROLL for (int r = 0; r < kRows; ++r) {
      HYDRANT_UNROLL for (int p = 0; p < kBytePlanes; ++p) {
        HYDRANT_UNROLL for (int n = 0; n < kVectors; ++n) sum[r][p][n] = ZeroI();
      }
    }
    for (int64_t b = span; b < end; ++b) {
      const uint8_t* values =
          args.kv + args.blocks[b] * args.block_bytes + args.at.values + column * 4;
      if (kRows <= kPrefetchStripRows && column == 0) PrefetchInValues(args, b, blocks);
      for (int quad = 0; quad < kSlots / 4; ++quad) {
        I16 value[kVectors];
        HYDRANT_UNROLL for (int n = 0; n < kVectors; ++n) {
          value[n] = LoadI(values + quad * quad_bytes + n * kLanes * 4);
        }
        HYDRANT_UNROLL for (int r = 0; r < kRows; ++r) {
          HYDRANT_UNROLL for (int p = 0; p < kBytePlanes; ++p) {
            const I16 weight =
                BroadcastWord(WeightPlanes(args, r) + p * args.stride + b * kSlots + quad * 4);
            HYDRANT_UNROLL for (int n = 0; n < kVectors; ++n) {
              sum[r][p][n] = DotQuads(weight, value[n], sum[r][p][n]);
            }
          }
        }
      }
    }
    HYDRANT_UNROLL for (int r = 0; r < kRows; ++r) {
      HYDRANT_UNROLL for (int n = 0; n < kVectors; ++n) {
        total[r][n] = total[r][n] + JoinBytes(sum[r][0][n], sum[r][1][n]);
      }
    }
  }
  HYDRANT_UNROLL for (int r = 0; r < kRows; ++r) {
    HYDRANT_UNROLL for (int n = 0; n < kVectors; ++n) {
      StoreOutput(args, r, column + n * kLanes, total[r][n] * SetF(args.query_scratch[r]));
    }
  }
}

template <int kRows = kStripRows>
static void AttendKeysInt8(StripArgs& args) {
  if (args.count == kRows) {
    AttendKeysInt8Rows<kRows>(args);
  } else if constexpr (kRows > 1) {
    AttendKeysInt8<kRows - 1>(args);
  }
}

template <int kRows = kStripRows>
static void AttendValuesInt8(const StripArgs& args) {
  if (args.count == kRows) {
    constexpr int kVectors = kRows <= 3 ? 4 : 2;
    const int64_t padded = PadHeadDim(args.head_dim);
    int64_t column = 0;
    for (; column + kVectors * kLanes <= padded; column += kVectors * kLanes) {
      AttendValuesInt8Columns<kRows, kVectors>(args, column);
    }
    for (; column < padded; column += kLanes) AttendValuesInt8Columns<kRows, 1>(args, column);
  } else if constexpr (kRows > 1) {
    AttendValuesInt8<kRows - 1>(args);
  }
}

}  // namespace hydrant::kernels::cpu::HYDRANT_ISA

#endif

#endif  // HYDRANT_KERNELS_CPU_ISA_INT8_ATTENTION_H_
