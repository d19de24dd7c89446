// Attention over bf16 keys and values in AMX tile registers. A block of the cache is laid out as
// the instructions want it: pairs along the reduction side by side, 16 keys or 16 channels in a
// row. A strip always fills 16 rows, those past its count with whatever lies there: rows do not
// meet. TDPBF16PS adds up in one fixed order for each element, so a row's result does not depend on
// the rest of its strip, as attention.h promises.

#ifndef HYDRANT_KERNELS_CPU_ISA_AMX_ATTENTION_H_
#define HYDRANT_KERNELS_CPU_ISA_AMX_ATTENTION_H_

#include "kernels/cpu/isa/attention.h"

#if defined(__AMX_BF16__)

#include "kernels/cpu/isa/amx_tiles.h"

namespace hydrant::kernels::cpu::HYDRANT_ISA {

static_assert(kMaxStripRows == kAmxRows);
inline constexpr int kBF16StripRows = kAmxRows;
// Key blocks, or vectors of 16 output channels, whose sums are held together.
inline constexpr int kAmxSums = 4;

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

HYDRANT_INLINE void AmxZeroSums() {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
}

// Sums side by side, 16 elements each.
HYDRANT_INLINE void AmxStoreSums(float* to, int64_t stride) {
  _tile_stored(0, to, stride * 4);
  _tile_stored(1, to + kLanes, stride * 4);
  _tile_stored(2, to + 2 * kLanes, stride * 4);
  _tile_stored(3, to + 3 * kLanes, stride * 4);
}

HYDRANT_INLINE void PrefetchLines(const uint8_t* from, int64_t bytes) {
  for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(from + at);
}

// Unscaled scores of all slots into args.probabilities, past the last block up to a multiple of
// kAmxSums blocks.
static void AmxScores(const StripArgs& args, int64_t blocks) {
  const int64_t padded = PadHeadDim(args.head_dim);
  auto* queries = reinterpret_cast<uint16_t*>(args.query_scratch);
  PrepareQueries<AmxBF16Kv>(args, padded, queries);
  // The most pairs of channels that a register holds and that go evenly into a head.
  const int64_t pairs = (args.head_dim + 1) / 2;
  int64_t step = pairs < kAmxRows ? pairs : kAmxRows;
  while (pairs % step != 0) --step;
  AmxShapes shapes;
  for (int i = 0; i < kAmxSums; ++i) shapes.Set(i, kAmxRows, kAmxRowBytes);
  shapes.Set(4, kAmxRows, step * 4);
  shapes.Set(5, step, kAmxRowBytes);
  shapes.Load();
  for (int64_t b = 0; b < blocks; b += kAmxSums) {
    const uint8_t* keys[kAmxSums];
    for (int j = 0; j < kAmxSums; ++j) {
      const int64_t block = b + j < blocks ? b + j : blocks - 1;
      keys[j] = args.kv + args.blocks[block] * args.block_bytes;
      if (args.count <= kPrefetchStripRows && block + kPrefetchBlocks < blocks) {
        PrefetchLines(args.kv + args.blocks[block + kPrefetchBlocks] * args.block_bytes,
                      pairs * kAmxRowBytes);
      }
    }
    AmxZeroSums();
    for (int64_t pair = 0; pair < pairs; pair += step) {
      AmxMultiply(queries + 2 * pair, 2 * padded, keys, kAmxRowBytes);
      for (const uint8_t*& key : keys) key += step * kAmxRowBytes;
    }
    AmxStoreSums(args.probabilities + b * kSlots, args.stride);
  }
  _tile_release();
}

// 2^x to 3e-7 of itself, 0 at -inf. The polynomial has the least maximum of the relative error over
// [0, 1].
HYDRANT_INLINE F16 AmxExp2(F16 x) {
  constexpr auto kAll = static_cast<__mmask16>(-1);
  const auto power = (__m512)x.part[0];
  // What x is above the next integer below, and that integer is the part of it that scalef takes.
  constexpr int kFloor = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
  const F16 f = {{(PartF)_mm512_maskz_reduce_ps(kAll, power, kFloor)}};
  F16 p = SetF(1.877576673e-03f);
  p = Fma(p, f, SetF(8.989340096e-03f));
  p = Fma(p, f, SetF(5.582631805e-02f));
  p = Fma(p, f, SetF(2.401536170e-01f));
  p = Fma(p, f, SetF(6.931530732e-01f));
  p = Fma(p, f, SetF(9.999999251e-01f));
  return {{(PartF)_mm512_maskz_scalef_ps(kAll, (__m512)p.part[0], power)}};
}

// The softmax's terms of row r, from its unscaled scores in args.probabilities. `whole`: blocks that
// the row sees whole.
template <bool kKeepProbabilities>
HYDRANT_INLINE void AmxExponentials(StripArgs& args, int r, int64_t whole, int64_t blocks) {
  float* row = args.probabilities + r * args.stride;
  auto* narrow = static_cast<uint16_t*>(args.narrow) + r * args.stride;
  F16 most = SetF(-__builtin_inff());
  for (int64_t b = 0; b < whole; ++b) most = Max(LoadF(row + b * kSlots), most);
  for (int64_t b = whole; b < blocks; ++b) {
    const F16 score = Mask(args, r, b, LoadF(row + b * kSlots));
    StoreF(row + b * kSlots, score);
    most = Max(score, most);
  }
  const float largest = ReduceMax(most);
  args.largest[r] = largest * args.scale;
  // exp(scale (score - largest)) by powers of 2.
  const float factor = args.scale * 1.44269504088896341f;
  const F16 by = SetF(factor), from = SetF(-largest * factor);
  F16 sum = ZeroF();
  for (int64_t b = 0; b < blocks; ++b) {
    const F16 e = AmxExp2(Fma(LoadF(row + b * kSlots), by, from));
    sum = sum + e;
    if constexpr (kKeepProbabilities) StoreF(row + b * kSlots, e);
    AmxBF16Kv::Store(narrow + b * kSlots, e);
  }
  args.inverse_sum[r] = 1.0f / ReduceAdd(sum);
}

static void AmxAttendKeys(StripArgs& args) {
  const int64_t blocks = (args.limit[args.count - 1] + kSlots - 1) / kSlots;
  AmxScores(args, blocks);
  const int64_t whole = args.positions == nullptr ? args.limit[0] / kSlots : 0;
  for (int r = 0; r < args.count; ++r) {
    if (args.keep_probabilities) {
      AmxExponentials<true>(args, r, whole, blocks);
    } else {
      AmxExponentials<false>(args, r, whole, blocks);
    }
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
  alignas(64) float sums[kAmxRows][kAmxSums * kLanes];
  for (int64_t column = 0; column < padded; column += kAmxSums * kLanes) {
    AmxZeroSums();
    for (int64_t b = 0; b < blocks; ++b) {
      const uint8_t* block = b + 1 < blocks ? values_of(b) : reinterpret_cast<const uint8_t*>(last);
      if (args.count <= kPrefetchStripRows && b + kPrefetchBlocks < blocks) {
        PrefetchLines(values_of(b + kPrefetchBlocks), kPairs * stride);
      }
      const uint8_t* values[kAmxSums];
      for (int j = 0; j < kAmxSums; ++j) {
        const int64_t at = column + j * kLanes;
        values[j] = block + (at < padded ? at : column) * 4;
      }
      AmxMultiply(probabilities + b * kSlots, 2 * args.stride, values, stride);
    }
    AmxStoreSums(sums[0], kAmxSums * kLanes);
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
