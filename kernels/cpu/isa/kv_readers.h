// How the keys and values of each KvDType lie in a block, and how they become vectors.
//
// Blocks of kBlockSlots slots, keys before values. Each step takes a vector of 16 lanes, of as many
// elements along the reduction as fit into 32 bits:
//   f32   keys [head_dim][16], values [16][padded]
//   bf16  keys [head_dim / 2][16][2], values [8][padded][2]
//   int8  keys [head_dim / 4][16][4], values [4][padded][4]; between them the f32 scales: [16] of
//         the keys, then [16] of the values
//   int4, kivi2  see grouped.h; levels become numbers when they are loaded
// where padded is head_dim rounded up to 16; a head_dim that is not whole pairs or quads is padded,
// for bf16 with zeros.

#ifndef HYDRANT_KERNELS_CPU_ISA_KV_READERS_H_
#define HYDRANT_KERNELS_CPU_ISA_KV_READERS_H_

#include "kernels/cpu/isa/bf16_pairs.h"
#include "kernels/cpu/isa/grouped.h"
#include "kernels/cpu/isa/kernel_table.h"
#include "kernels/cpu/isa/simd.h"

namespace hydrant::kernels::cpu::HYDRANT_ISA {

inline constexpr int kSlots = 16;

// How a dtype is read and multiplied.
//   Operand        of queries and probabilities, as they are broadcast
//   kUnits         products that a vector as it lies is taken apart for, each of kPerStep / kUnits
//                  elements a lane
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
  static constexpr int kUnits = 1;
  static constexpr int kLaneBytes = 4;
  static constexpr bool kScaled = false;
  static constexpr bool kGrouped = false;
  static constexpr bool kNarrow = false;
  static constexpr int kKeyBlocks = kParts == 1 ? 4 : 1;
  static constexpr int kValueVectors = kParts == 1 ? 4 : 1;
  HYDRANT_INLINE Vector Load(const void* from) { return LoadF(from); }
  HYDRANT_INLINE Vector Unit(Vector v, int) { return v; }
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
  static constexpr int kUnits = 1;
  static constexpr int kLaneBytes = 4;
  static constexpr bool kScaled = false;
  static constexpr bool kGrouped = false;
  static constexpr bool kNarrow = true;
  static constexpr bool kPaired = sizeof(Operand) == 2;  // a pair takes one register, not two
  static constexpr int kKeyBlocks = kPaired ? 4 : kParts == 1 ? 3 : 1;
  static constexpr int kValueVectors = kPaired ? 4 : kParts == 1 ? 2 : 1;
  HYDRANT_INLINE Vector Load(const void* from) { return LoadPairs(from); }
  HYDRANT_INLINE Vector Unit(Vector v, int) { return v; }
  HYDRANT_INLINE Vector Broadcast(const Operand* from) { return BroadcastPair(from); }
  HYDRANT_INLINE F16 Dot(Vector a, Vector b, F16 sum) { return DotPairs(a, b, sum); }
  HYDRANT_INLINE Vector First(Vector v) { return FirstOnly(v); }
  HYDRANT_INLINE void Store(Operand* to, F16 v) { StoreNarrow(to, v); }
};

// Where there are no instructions for int8_attention.h.
struct Int8Kv {
  typedef I16 Vector;
  typedef float Operand;
  static constexpr int kPerStep = 4;
  static constexpr int kUnits = 4;
  static constexpr int kLaneBytes = 4;
  static constexpr bool kScaled = true;
  static constexpr bool kGrouped = false;
  static constexpr bool kNarrow = true;
  static constexpr int kKeyBlocks = 1;
  static constexpr int kValueVectors = 1;
  HYDRANT_INLINE Vector Load(const void* from) { return LoadI(from); }
  HYDRANT_INLINE F16 Unit(Vector v, int unit) {
    return ToFloat(unit == 0   ? ShiftRight(ShiftLeft<24>(v), 24)
                   : unit == 1 ? ShiftRight(ShiftLeft<16>(v), 24)
                   : unit == 2 ? ShiftRight(ShiftLeft<8>(v), 24)
                               : ShiftRight(v, 24));
  }
  HYDRANT_INLINE F16 Broadcast(const Operand* from) { return SetF(*from); }
  HYDRANT_INLINE F16 Dot(F16 a, F16 b, F16 sum) { return Fma(a, b, sum); }
  // What lies past a slot is some number, and meets a probability of 0.
  HYDRANT_INLINE Vector First(Vector v) { return v; }
  HYDRANT_INLINE void Store(Operand* to, F16 v) { StoreF(to, v); }
};

// Of int4 and kivi2.
template <int kKeyBitsOf, int kValueBitsOf>
struct GroupedKv {
  typedef F16 Vector;
  typedef float Operand;
  static constexpr int kPerStep = 1;
  static constexpr int kUnits = 1;
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
  HYDRANT_INLINE Vector Unit(Vector v, int) { return v; }
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

}  // namespace hydrant::kernels::cpu::HYDRANT_ISA

#endif  // HYDRANT_KERNELS_CPU_ISA_KV_READERS_H_
