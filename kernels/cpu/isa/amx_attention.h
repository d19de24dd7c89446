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
// A tile of keys holds this many channels.
inline constexpr int64_t kAmxChannels = kAmxRowBytes / 2;

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

// The same for the last channels of a head, which fill only a part of their registers.
HYDRANT_INLINE void AmxMultiplyRest(const void* a, int64_t a_stride, const uint8_t* const* b,
                                    int64_t b_stride) {
  _tile_loadd(6, a, a_stride);
  _tile_loadd(7, b[0], b_stride);
  _tile_dpbf16ps(0, 6, 7);
  _tile_loadd(7, b[1], b_stride);
  _tile_dpbf16ps(1, 6, 7);
  _tile_loadd(7, b[2], b_stride);
  _tile_dpbf16ps(2, 6, 7);
  _tile_loadd(7, b[3], b_stride);
  _tile_dpbf16ps(3, 6, 7);
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
  const int64_t pairs = (args.head_dim + 1) / 2;
  const int64_t rest = pairs % kAmxRows;
  const int64_t padded = (args.head_dim + kAmxChannels - 1) / kAmxChannels * kAmxChannels;
  auto* queries = reinterpret_cast<uint16_t*>(args.query_scratch);
  for (int r = 0; r < args.count; ++r) {
    for (int64_t d = 0; d < args.head_dim; d += kLanes) {
      const int64_t left = args.head_dim - d;
      StoreBF16(queries + r * padded + d,
                LoadUpTo(args.query[r] + d, left < kLanes ? left : kLanes));
    }
  }
  AmxShapes shapes;
  for (int i = 0; i < 6; ++i) shapes.Set(i, kAmxRows, kAmxRowBytes);
  if (rest > 0) {
    shapes.Set(6, kAmxRows, rest * 4);
    shapes.Set(7, rest, kAmxRowBytes);
  }
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
    int64_t pair = 0;
    for (; pair + kAmxRows <= pairs; pair += kAmxRows) {
      AmxMultiply(queries + 2 * pair, 2 * padded, keys, kAmxRowBytes);
      for (const uint8_t*& key : keys) key += kAmxRows * kAmxRowBytes;
    }
    if (rest > 0) AmxMultiplyRest(queries + 2 * pair, 2 * padded, keys, kAmxRowBytes);
    AmxStoreSums(args.probabilities + b * kSlots, args.stride);
  }
  _tile_release();
}

static void AmxAttendKeys(StripArgs& args) {
  const int64_t blocks = (args.limit[args.count - 1] + kSlots - 1) / kSlots;
  AmxScores(args, blocks);
  const F16 scale = SetF(args.scale);
  const int64_t whole = args.positions == nullptr ? args.limit[0] / kSlots : 0;
  for (int r = 0; r < args.count; ++r) {
    float* row = args.probabilities + r * args.stride;
    F16 largest = SetF(-__builtin_inff());
    for (int64_t b = 0; b < blocks; ++b) {
      F16 score = LoadF(row + b * kSlots) * scale;
      if (b >= whole) score = Mask(args, r, b, score);
      largest = Max(score, largest);
      StoreF(row + b * kSlots, score);
    }
    Exponentials<AmxBF16Kv>(args, r, largest);
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
  __builtin_memset(last, 0, kPairs * stride);
  __builtin_memcpy(last, values_of(blocks - 1), (end - 1) % kSlots / 2 * stride);
  const auto* odd = reinterpret_cast<const uint16_t*>(values_of(blocks - 1));
  const int64_t pair = (end - 1) % kSlots / 2 * padded;
  for (int64_t d = 0; d < padded; ++d) {
    last[2 * (pair + d)] = odd[2 * (pair + d)];
    if (end % 2 == 0) last[2 * (pair + d) + 1] = odd[2 * (pair + d) + 1];
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
      for (int64_t at = column; at < args.head_dim && at < column + kAmxSums * kLanes;
           at += kLanes) {
        const F16 v = LoadF(sums[r] + (at - column)) * SetF(args.inverse_sum[r]);
        if (at + kLanes <= args.head_dim) {
          StoreF(args.out[r] + at, v);
        } else {
          StorePartial(args.out[r] + at, v, args.head_dim - at);
        }
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
