// The slot that a decode step gives up, searched sixteen slots at a time: first what the lowest
// score is, then which slot has it. The second pass finds its lines in the cache, and seldom more
// than one slot to look at.

#ifndef HYDRANT_KERNELS_CPU_ISA_VICTIM_H_
#define HYDRANT_KERNELS_CPU_ISA_VICTIM_H_

#include "kernels/cpu/isa/kernel_table.h"
#include "kernels/cpu/isa/lanes.h"
#include "kernels/cpu/isa/simd.h"

namespace hydrant::kernels::cpu::HYDRANT_ISA {

// The positions of a block's slots; those past num_slots, which hold anything, become `absent`.
HYDRANT_INLINE I16 HeldPositions(const VictimArgs& args, int32_t first, int32_t absent) {
  const I16 position = LoadI(args.positions + int64_t{args.blocks[first / kLanes]} * kLanes);
  if (first + kLanes <= args.num_slots) return position;
  return Select((LaneIndex() + SetI(first)) < SetI(args.num_slots), position, SetI(absent));
}

HYDRANT_INLINE F16 BlockScores(const VictimArgs& args, int32_t first) {
  const F16 score = LoadF(args.scores + int64_t{args.blocks[first / kLanes]} * kLanes);
  return Select(score == score, score, ZeroF());  // NaN counts as 0
}

// The oldest of the slots that the layer's window has passed by, or -1.
static int32_t OldestExpired(const VictimArgs& args) {
  I16 least = SetI(INT32_MAX);
  for (int32_t first = 0; first < args.num_slots; first += kLanes) {
    const I16 position = HeldPositions(args, first, INT32_MAX);
    least = Select(position < least, position, least);
  }
  int32_t lanes[kLanes];
  StoreI(lanes, least);
  int32_t oldest = INT32_MAX;
  for (const int32_t position : lanes) oldest = position < oldest ? position : oldest;
  if (oldest >= args.expired_end) return -1;
  for (int32_t slot = 0;; ++slot) {
    const int64_t block = args.blocks[slot / kLanes];
    if (args.positions[block * kLanes + slot % kLanes] == oldest) return slot;
  }
}

// The slot of the lowest score among positions in [sink_end, recent_begin), the oldest of equals,
// or -1.
static int32_t LowestScore(const VictimArgs& args) {
  if (args.recent_begin <= args.sink_end) return -1;
  // One comparison tells begin <= position < end: as unsigned numbers, position - begin < length.
  // The sign bits are flipped for want of an unsigned comparison.
  const I16 begin = SetI(args.sink_end);
  const I16 length = SetI((args.recent_begin - args.sink_end) ^ INT32_MIN);
  const auto open = [&](int32_t first) {
    return ((HeldPositions(args, first, -1) - begin) ^ SetI(INT32_MIN)) < length;
  };
  const F16 infinity = SetF(__builtin_inff());
  F16 least = infinity;
  for (int32_t first = 0; first < args.num_slots; first += kLanes) {
    least = Min(Select(open(first), BlockScores(args, first), infinity), least);
  }
  const F16 lowest = SetF(ReduceMin(least));
  int32_t victim = -1, victim_position = INT32_MAX;
  for (int32_t first = 0; first < args.num_slots; first += kLanes) {
    const I16 equal = BlockScores(args, first) == lowest;
    if (!Any(equal)) continue;
    const I16 candidate = equal & open(first);
    int32_t position[kLanes];
    StoreI(position, Select(candidate, HeldPositions(args, first, -1), SetI(INT32_MAX)));
    for (int32_t i = 0; i < kLanes; ++i) {
      if (position[i] >= victim_position) continue;
      victim = first + i;
      victim_position = position[i];
    }
  }
  return victim;
}

static int32_t FindVictim(const VictimArgs& args) {
  if (args.expired_end > 0) {
    const int32_t expired = OldestExpired(args);
    if (expired >= 0) return expired;
  }
  return LowestScore(args);
}

}  // namespace hydrant::kernels::cpu::HYDRANT_ISA

#endif  // HYDRANT_KERNELS_CPU_ISA_VICTIM_H_
