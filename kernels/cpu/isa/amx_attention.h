// Attention over bf16 keys and values in AMX tile registers. A block of the cache is laid out as
// the instructions want it: pairs along the reduction side by side, 16 keys or 16 channels in a
// row. A strip always fills 16 rows, those past its count with whatever lies there: rows do not
// meet. TDPBF16PS adds up in one fixed order for each element, so a row's result does not depend on
// the rest of its strip, as attention.h promises.

#ifndef HYDRANT_KERNELS_CPU_ISA_AMX_ATTENTION_H_
#define HYDRANT_KERNELS_CPU_ISA_AMX_ATTENTION_H_

#include "kernels/cpu/isa/attention.h"
#include "kernels/cpu/isa/lanes.h"

#if defined(__AMX_BF16__)

#include "kernels/cpu/isa/amx_tiles.h"

namespace hydrant::kernels::cpu::HYDRANT_ISA {

static_assert(kMaxStripRows == kAmxRows);
inline constexpr int kBF16StripRows = kAmxRows;
struct AmxBF16Kv : BF16Kv {
  typedef uint16_t Operand;
  // Every machine with AMX has this instruction. It takes tiny numbers for 0, as the products do.
  HYDRANT_INLINE void Store(Operand* to, F16 v) {
    __m256i narrow;
    asm("vcvtneps2bf16 %1, %0" : "=v"(narrow) : "v"(v.part[0]));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), narrow);
  }
};

// sums[0..3] grow by a x b[0..3]; registers 0-3 hold the sums.
HYDRANT_INLINE void AmxMultiply(const void* a, int64_t a_stride, const uint8_t* const* b,
                                int64_t b_stride) {
  _tile_loadd(4, a, a_stride);
  _tile_loadd(5, b[0], b_stride);
  _tile_dpbf16ps(0, 4, 5);
  _tile_loadd(5, b[1], b_stride);
  _tile_dpbf16ps(1, 4, 5);
  _tile_loadd(5, b[2], b_stride);
  _tile_dpbf16ps(2, 4, 5);
  _tile_loadd(5, b[3], b_stride);
  _tile_dpbf16ps(3, 4, 5);
}

// A row's softmax while its scores come, kAmxSums blocks at a time: terms are counted from a score
// of the row's own, the largest of the first blocks that it sees anything of. So they need not wait
// for the largest of all, and are taken from scores that are still in the first cache.
struct AmxRow {
  float reference = -__builtin_inff();  // unscaled
  F16 from = ZeroF();                   // -reference, in powers of 2; 0 while there is none
  F16 limit = SetF(-__builtin_inff());  // a score above this moves the reference
  F16 sum = ZeroF();                    // of the terms, by lane
};
// Terms up to 2^this are left to grow: far from what f32 holds, and hardly ever reached.
inline constexpr float kAmxMostPowers = 40.0f;

// Counts row r's terms of the first `slots`, and those to come, from the largest of `scores`.
// `factor` makes powers of 2 of scores.
static __attribute__((noinline)) void AmxMoveReference(const StripArgs& args, int r, F16 scores,
                                                       int64_t slots, float factor, AmxRow& row) {
  const float reference = ReduceMax(scores);
  if (row.reference != -__builtin_inff()) {
    const F16 by = Exp2(SetF((row.reference - reference) * factor));
    row.sum = row.sum * by;
    float* terms = args.probabilities + r * args.stride;
    auto* narrow = static_cast<uint16_t*>(args.narrow) + r * args.stride;
    for (int64_t s = 0; s < slots; s += kLanes) {
      if (args.keep_probabilities) StoreF(terms + s, LoadF(terms + s) * by);
      AmxBF16Kv::Store(narrow + s, LoadBF16(narrow + s) * by);
    }
  }
  row.reference = reference;
  row.from = SetF(-reference * factor);
  row.limit = SetF(reference + kAmxMostPowers / factor);
}

// Row r's terms of `held` blocks from b on, from their unscaled scores. `whole`: it sees all of
// kAmxSums blocks.
template <bool kKeepProbabilities>
HYDRANT_INLINE void AmxTerms(const StripArgs& args, int r, int64_t b, int64_t held, bool whole,
                             const float* scores, float factor, AmxRow& row) {
  F16 score[kAmxSums];
  HYDRANT_UNROLL for (int j = 0; j < kAmxSums; ++j) score[j] = LoadF(scores + j * kLanes);
  if (!whole) {
    for (int64_t j = 0; j < kAmxSums; ++j) {
      score[j] = j < held ? Mask(args, r, b + j, score[j]) : SetF(-__builtin_inff());
    }
  }
  const F16 most = Max(Max(score[0], score[1]), Max(score[2], score[3]));
  static_assert(kAmxSums == 4);
  if (Any(most > row.limit)) AmxMoveReference(args, r, most, b * kSlots, factor, row);
  const F16 by = SetF(factor);
  float* terms = args.probabilities + r * args.stride + b * kSlots;
  auto* narrow = static_cast<uint16_t*>(args.narrow) + r * args.stride + b * kSlots;
  HYDRANT_UNROLL for (int j = 0; j < kAmxSums; ++j) {
    const F16 e = Exp2(Fma(score[j], by, row.from));
    row.sum = row.sum + e;
    if constexpr (kKeepProbabilities) StoreF(terms + j * kLanes, e);
    AmxBF16Kv::Store(narrow + j * kLanes, e);
  }
}

template <bool kKeepProbabilities>
static void AmxAttendKeysOf(StripArgs& args) {
  const int64_t blocks = (args.limit[args.count - 1] + kSlots - 1) / kSlots;
  const int64_t whole = args.positions == nullptr ? args.limit[0] / kSlots : 0;
  const float factor = args.scale * kLog2E;
  const int64_t padded = PadHeadDim(args.head_dim);
  auto* queries = reinterpret_cast<uint16_t*>(args.query_scratch);
  PrepareQueries<AmxBF16Kv>(args, padded, queries);
  const int64_t pairs = (args.head_dim + 1) / 2;
  const int64_t step = AmxStep(pairs);
  AmxShapes shapes;
  for (int i = 0; i < kAmxSums; ++i) shapes.Set(i, kAmxRows, kAmxRowBytes);
  shapes.Set(4, kAmxRows, step * 4);
  shapes.Set(5, step, kAmxRowBytes);
  shapes.Load();
  AmxRow rows[kAmxRows];
  // Of kAmxSums blocks from b on.
  const auto store_scores = [&](int64_t b, float* to) {
    const uint8_t* keys[kAmxSums];
    for (int j = 0; j < kAmxSums; ++j) {
      const int64_t block = b + j < blocks ? b + j : blocks - 1;
      keys[j] = args.kv + args.blocks[block] * args.block_bytes;
      if (args.count <= kPrefetchStripRows && b + j < blocks) PrefetchInKeys(args, block, blocks);
    }
    AmxZeroSums();
    for (int64_t pair = 0; pair < pairs; pair += step) {
      AmxMultiply(queries + 2 * pair, 2 * padded, keys, kAmxRowBytes);
      for (const uint8_t*& key : keys) key += step * kAmxRowBytes;
    }
    AmxStoreSums(to);
  };
  // One group ahead, so that tiles are multiplied while vectors make terms.
  alignas(64) float scores[2][kAmxRows][kAmxSumsStride];
  store_scores(0, scores[0][0]);
  for (int64_t b = 0; b < blocks; b += kAmxSums) {
    const int64_t now = b / kAmxSums % 2, next = b + kAmxSums;
    if (next < blocks) store_scores(next, scores[1 - now][0]);
    const int64_t held = blocks - b < kAmxSums ? blocks - b : kAmxSums;
    for (int r = 0; r < args.count; ++r) {
      AmxTerms<kKeepProbabilities>(args, r, b, held, next <= whole, scores[now][r], factor,
                                   rows[r]);
    }
  }
  _tile_release();
  for (int r = 0; r < args.count; ++r) {
    args.reference[r] = rows[r].reference * args.scale;
    args.inverse_sum[r] = 1.0f / ReduceAdd(rows[r].sum);
  }
}

static void AmxAttendKeys(StripArgs& args) {
  if (args.keep_probabilities) {
    AmxAttendKeysOf<true>(args);
  } else {
    AmxAttendKeysOf<false>(args);
  }
}

static void AmxAttendValues(const StripArgs& args) {
  const int32_t end = args.limit[args.count - 1];
  const int64_t blocks = (end + kSlots - 1) / kSlots;
  const int64_t padded = PadHeadDim(args.head_dim);
  const int64_t stride = padded * 4;  // bytes from a pair of slots to the next
  constexpr int kPairs = kSlots / 2;
  const auto values_of = [&](int64_t b) {
    return args.kv + args.blocks[b] * args.block_bytes + args.at.values;
  };
  // Nothing past the end is multiplied, not even by 0, since it could be anything.
  auto* last = reinterpret_cast<uint16_t*>(args.query_scratch);
  const int64_t held = end - (blocks - 1) * kSlots;
  __builtin_memset(last, 0, kPairs * stride);
  __builtin_memcpy(last, values_of(blocks - 1), (held + 1) / 2 * stride);
  if (held % 2 != 0) {
    uint16_t* pair = last + (held - 1) * padded;
    for (int64_t d = 0; d < padded; ++d) pair[2 * d + 1] = 0;
  }

  AmxShapes shapes;
  for (int i = 0; i < kAmxSums; ++i) shapes.Set(i, kAmxRows, kAmxRowBytes);
  shapes.Set(4, kAmxRows, kPairs * 4);
  shapes.Set(5, kPairs, kAmxRowBytes);
  shapes.Load();
  const auto* probabilities = static_cast<const uint16_t*>(args.narrow);
  alignas(64) float sums[kAmxRows][kAmxSumsStride];
  for (int64_t column = 0; column < padded; column += kAmxSums * kLanes) {
    AmxZeroSums();
    for (int64_t b = 0; b < blocks; ++b) {
      const uint8_t* block = b + 1 < blocks ? values_of(b) : reinterpret_cast<const uint8_t*>(last);
      if (args.count <= kPrefetchStripRows && column == 0) PrefetchInValues(args, b, blocks);
      const uint8_t* values[kAmxSums];
      for (int j = 0; j < kAmxSums; ++j) {
        const int64_t at = column + j * kLanes;
        values[j] = block + (at < padded ? at : column) * 4;
      }
      AmxMultiply(probabilities + b * kSlots, 2 * args.stride, values, stride);
    }
    AmxStoreSums(sums[0]);
    for (int r = 0; r < args.count; ++r) {
      for (int j = 0; j < kAmxSums && column + j * kLanes < args.head_dim; ++j) {
        StoreOutput(args, r, column + j * kLanes, LoadF(sums[r] + j * kLanes));
      }
    }
  }
  _tile_release();
}

inline constexpr auto kAttendKeysBF16 = AmxAttendKeys;
inline constexpr auto kAttendValuesBF16 = AmxAttendValues;

}  // namespace hydrant::kernels::cpu::HYDRANT_ISA

#else

namespace hydrant::kernels::cpu::HYDRANT_ISA {

inline constexpr int kBF16StripRows = kStripRows;
inline constexpr auto kAttendKeysBF16 = AttendKeys<BF16Kv>;
inline constexpr auto kAttendValuesBF16 = AttendValues<BF16Kv>;

}  // namespace hydrant::kernels::cpu::HYDRANT_ISA

#endif

#endif  // HYDRANT_KERNELS_CPU_ISA_AMX_ATTENTION_H_
