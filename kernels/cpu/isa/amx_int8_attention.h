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
static_assert(kAmxMinStripRows <= kInt8VectorRows + 1);
// Key blocks, or vectors of 16 output channels, whose sums are held together.
inline constexpr int kInt8Sums = 4;
constexpr int64_t kInt8SumsStride = kInt8Sums * kLanes;  // of sums in memory

HYDRANT_INLINE void Int8ZeroSums() {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
}

// Sums side by side, 16 elements each.
HYDRANT_INLINE void Int8StoreSums(int32_t* to) {
  _tile_stored(0, to, kInt8SumsStride * 4);
  _tile_stored(1, to + kLanes, kInt8SumsStride * 4);
  _tile_stored(2, to + 2 * kLanes, kInt8SumsStride * 4);
  _tile_stored(3, to + 3 * kLanes, kInt8SumsStride * 4);
}

// Of row r, the j-th 16.
HYDRANT_INLINE F16 Int8Joined(const int32_t* sums, int r, int64_t j) {
  const int32_t* upper = sums + r * kBytePlanes * kInt8SumsStride + j * kLanes;
  return JoinBytes(LoadI(upper), LoadI(upper + kInt8SumsStride));
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
  // The most quads of channels that a register holds and that go evenly into a head.
  const int64_t quads = (args.head_dim + 3) / 4;
  int64_t step = quads < kAmxRows ? quads : kAmxRows;
  while (quads % step != 0) --step;
  AmxShapes shapes;
  for (int i = 0; i < kInt8Sums; ++i) shapes.Set(i, kAmxRows, kAmxRowBytes);
  shapes.Set(4, kAmxRows, step * 4);
  shapes.Set(5, step, kAmxRowBytes);
  shapes.Load();
  // Of kInt8Sums blocks from b on.
  const auto store_sums = [&](int64_t b, int32_t* to) {
    const uint8_t* keys[kInt8Sums];
    for (int j = 0; j < kInt8Sums; ++j) {
      const int64_t block = b + j < blocks ? b + j : blocks - 1;
      keys[j] = args.kv + args.blocks[block] * args.block_bytes;
    }
    Int8ZeroSums();
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
    Int8StoreSums(to);
  };
  // One group ahead, so that tiles are multiplied while vectors scale.
  alignas(64) int32_t sums[2][kAmxRows * kInt8SumsStride];
  store_sums(0, sums[0]);
  for (int64_t b = 0; b < blocks; b += kInt8Sums) {
    const int64_t now = b / kInt8Sums % 2, next = b + kInt8Sums;
    if (next < blocks) store_sums(next, sums[1 - now]);
    for (int r = 0; r < args.count; ++r) {
      for (int64_t j = 0; j < kInt8Sums && b + j < blocks; ++j) {
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
  for (int i = 0; i < kInt8Sums; ++i) shapes.Set(i, kAmxRows, kAmxRowBytes);
  shapes.Set(4, kAmxRows, kQuads * 4);
  shapes.Set(5, kQuads, kAmxRowBytes);
  shapes.Load();
  alignas(64) int32_t sums[kAmxRows * kInt8SumsStride];
  for (int64_t column = 0; column < padded; column += kInt8Sums * kLanes) {
    F16 total[kInt8StripRows][kInt8Sums] = {};
    for (int64_t span = 0; span < blocks; span += kSpanBlocks) {
      const int64_t end = span + kSpanBlocks < blocks ? span + kSpanBlocks : blocks;
      Int8ZeroSums();
      for (int64_t b = span; b < end; ++b) {
        const uint8_t* values[kInt8Sums];
        for (int j = 0; j < kInt8Sums; ++j) {
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
      Int8StoreSums(sums);
      for (int r = 0; r < args.count; ++r) {
        for (int j = 0; j < kInt8Sums; ++j) total[r][j] = total[r][j] + Int8Joined(sums, r, j);
      }
    }
    for (int r = 0; r < args.count; ++r) {
      const F16 factor = SetF(args.query_scratch[r]);
      for (int j = 0; j < kInt8Sums && column + j * kLanes < args.head_dim; ++j) {
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
