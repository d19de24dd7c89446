// The same as int8_attention.h in AMX tile registers, for strips of more rows than vectors are good
// for: each row takes two of a register's 16, one of upper and one of lower bytes.

#ifndef HYDRANT_KERNELS_CPU_ISA_AMX_INT8_ATTENTION_H_
#define HYDRANT_KERNELS_CPU_ISA_AMX_INT8_ATTENTION_H_

#include "kernels/cpu/isa/int8_attention.h"

#if defined(__AMX_INT8__)

#include "kernels/cpu/isa/amx_tiles.h"

namespace hydrant::kernels::cpu::HYDRANT_ISA {

inline constexpr int kInt8StripRows = kAmxRows / kBytePlanes;
// Fewer rows than this are left to vectors.
inline constexpr int kAmxMinStripRows = 5;

// Of row r, the j-th 16.
HYDRANT_INLINE F16 Int8Joined(const int32_t* sums, int r, int64_t j) {
  const int32_t* upper = sums + r * kBytePlanes * kAmxSumsStride + j * kLanes;
  return JoinBytes(LoadI(upper), LoadI(upper + kAmxSumsStride));
}

static void AmxAttendKeysInt8(StripArgs& args) {
  if (args.count < kAmxMinStripRows) return AttendKeysInt8<kAmxMinStripRows - 1>(args);
  const int64_t blocks = (args.limit[args.count - 1] + kSlots - 1) / kSlots;
  const int64_t whole = args.positions == nullptr ? args.limit[0] / kSlots : 0;
  const int64_t padded = PadHeadDim(args.head_dim);
  F16 factor[kInt8StripRows], largest[kInt8StripRows];
  for (int r = 0; r < args.count; ++r) {
    factor[r] = SetF(SplitQuery(args, r));
    largest[r] = SetF(-__builtin_inff());
  }
  const int64_t quads = (args.head_dim + 3) / 4;
  const int64_t step = AmxStep(quads);
  AmxShapes shapes;
  for (int i = 0; i < kAmxSums; ++i) shapes.Set(i, kAmxRows, kAmxRowBytes);
  shapes.Set(4, kAmxRows, step * 4);
  shapes.Set(5, step, kAmxRowBytes);
  shapes.Load();
  // Of kAmxSums blocks from b on.
  const auto store_sums = [&](int64_t b, int32_t* to) {
    const uint8_t* keys[kAmxSums];
    for (int j = 0; j < kAmxSums; ++j) {
      const int64_t block = b + j < blocks ? b + j : blocks - 1;
      keys[j] = args.kv + args.blocks[block] * args.block_bytes;
    }
    AmxZeroSums();
    for (int64_t at = 0; at < quads * kAmxRowBytes; at += step * kAmxRowBytes) {
      _tile_loadd(4, QueryPlanes(args, 0) + at / kLanes, padded);
      _tile_loadd(5, keys[0] + at, kAmxRowBytes);
      _tile_dpbssd(0, 4, 5);
      _tile_loadd(5, keys[1] + at, kAmxRowBytes);
      _tile_dpbssd(1, 4, 5);
      _tile_loadd(5, keys[2] + at, kAmxRowBytes);
      _tile_dpbssd(2, 4, 5);
      _tile_loadd(5, keys[3] + at, kAmxRowBytes);
      _tile_dpbssd(3, 4, 5);
    }
    AmxStoreSums(to);
  };
  // One group ahead, so that tiles are multiplied while vectors scale.
  alignas(64) int32_t sums[2][kAmxRows * kAmxSumsStride];
  store_sums(0, sums[0]);
  for (int64_t b = 0; b < blocks; b += kAmxSums) {
    const int64_t now = b / kAmxSums % 2, next = b + kAmxSums;
    if (next < blocks) store_sums(next, sums[1 - now]);
    for (int r = 0; r < args.count; ++r) {
      for (int64_t j = 0; j < kAmxSums && b + j < blocks; ++j) {
        const F16 joined = Int8Joined(sums[now], r, j);
        largest[r] = Max(StoreScore(args, r, b + j, next <= whole, joined, factor[r]), largest[r]);
      }
    }
  }
  _tile_release();
  FinishKeys(args, largest);
}

static void AmxAttendValuesInt8(const StripArgs& args) {
  if (args.count < kAmxMinStripRows) return AttendValuesInt8<kAmxMinStripRows - 1>(args);
  const int64_t blocks = (args.limit[args.count - 1] + kSlots - 1) / kSlots;
  const int64_t padded = PadHeadDim(args.head_dim);
  constexpr int kQuads = kSlots / 4;
  AmxShapes shapes;
  for (int i = 0; i < kAmxSums; ++i) shapes.Set(i, kAmxRows, kAmxRowBytes);
  shapes.Set(4, kAmxRows, kQuads * 4);
  shapes.Set(5, kQuads, kAmxRowBytes);
  shapes.Load();
  alignas(64) int32_t sums[kAmxRows * kAmxSumsStride];
  for (int64_t column = 0; column < padded; column += kAmxSumsStride) {
    F16 total[kInt8StripRows][kAmxSums] = {};
    for (int64_t span = 0; span < blocks; span += kSpanBlocks) {
      const int64_t end = span + kSpanBlocks < blocks ? span + kSpanBlocks : blocks;
      AmxZeroSums();
      for (int64_t b = span; b < end; ++b) {
        const uint8_t* values[kAmxSums];
        for (int j = 0; j < kAmxSums; ++j) {
          const int64_t at = column + j * kLanes;
          values[j] = args.kv + args.blocks[b] * args.block_bytes + args.at.values +
                      (at < padded ? at : column) * 4;
        }
        _tile_loadd(4, WeightPlanes(args, 0) + b * kSlots, args.stride);
        _tile_loadd(5, values[0], padded * 4);
        _tile_dpbusd(0, 4, 5);
        _tile_loadd(5, values[1], padded * 4);
        _tile_dpbusd(1, 4, 5);
        _tile_loadd(5, values[2], padded * 4);
        _tile_dpbusd(2, 4, 5);
        _tile_loadd(5, values[3], padded * 4);
        _tile_dpbusd(3, 4, 5);
      }
      AmxStoreSums(sums);
      for (int r = 0; r < args.count; ++r) {
        for (int j = 0; j < kAmxSums; ++j) total[r][j] = total[r][j] + Int8Joined(sums, r, j);
      }
    }
    for (int r = 0; r < args.count; ++r) {
      const F16 factor = SetF(args.query_scratch[r]);
      for (int j = 0; j < kAmxSums && column + j * kLanes < args.head_dim; ++j) {
        StoreOutput(args, r, column + j * kLanes, total[r][j] * factor);
      }
    }
  }
  _tile_release();
}

inline constexpr auto kAttendKeysInt8 = AmxAttendKeysInt8;
inline constexpr auto kAttendValuesInt8 = AmxAttendValuesInt8;

}  // namespace hydrant::kernels::cpu::HYDRANT_ISA

#else

namespace hydrant::kernels::cpu::HYDRANT_ISA {

inline constexpr int kInt8StripRows = kStripRows;
#if defined(__AVX512VNNI__)
inline constexpr auto kAttendKeysInt8 = AttendKeysInt8<>;
inline constexpr auto kAttendValuesInt8 = AttendValuesInt8<>;
#else
inline constexpr auto kAttendKeysInt8 = AttendKeys<Int8Kv>;
inline constexpr auto kAttendValuesInt8 = AttendValues<Int8Kv>;
#endif

}  // namespace hydrant::kernels::cpu::HYDRANT_ISA

#endif

#endif  // HYDRANT_KERNELS_CPU_ISA_AMX_INT8_ATTENTION_H_
