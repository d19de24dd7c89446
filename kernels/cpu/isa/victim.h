// The slot that a decode step gives up, searched sixteen slots at a time.

#ifndef HYDRANT_KERNELS_CPU_ISA_VICTIM_H_
#define HYDRANT_KERNELS_CPU_ISA_VICTIM_H_

#include "kernels/cpu/isa/kernel_table.h"
#include "kernels/cpu/isa/simd.h"

namespace hydrant::kernels::cpu::HYDRANT_ISA {

// Per lane: the lowest score, its position and its slot; and the same for the oldest expired slot.
static int32_t FindVictim(const VictimArgs& args) {
  const I16 sink_end = SetI(args.sink_end), recent_begin = SetI(args.recent_begin);
  const I16 expired_end = SetI(args.expired_end), num_slots = SetI(args.num_slots);
  F16 best_score = SetF(__builtin_inff());
  I16 best_position = SetI(INT32_MAX), best_slot = SetI(-1);
  I16 oldest_position = SetI(INT32_MAX), oldest_slot = SetI(-1);
  for (int32_t first = 0; first < args.num_slots; first += kLanes) {
    const int64_t at = int64_t{args.blocks[first / kLanes]} * kLanes;
    const I16 position = LoadI(args.positions + at);
    const F16 stored = LoadF(args.scores + at);
    const F16 score = Select(stored == stored, stored, ZeroF());  // NaN counts as 0
    const I16 slot = LaneIndex() + SetI(first);
    const I16 held = slot < num_slots;
    const I16 expired = held & (position < expired_end) & (position < oldest_position);
    oldest_position = Select(expired, position, oldest_position);
    oldest_slot = Select(expired, slot, oldest_slot);
    const I16 lower = (score < best_score) | ((score == best_score) & (position < best_position));
    const I16 open = held & (position > sink_end - SetI(1)) & (position < recent_begin);
    best_score = Select(open & lower, score, best_score);
    best_position = Select(open & lower, position, best_position);
    best_slot = Select(open & lower, slot, best_slot);
  }
  float score[kLanes];
  int32_t position[kLanes], slot[kLanes];
  int32_t victim = -1, victim_position = INT32_MAX;
  StoreI(position, oldest_position);
  StoreI(slot, oldest_slot);
  for (int i = 0; i < kLanes; ++i) {
    if (slot[i] >= 0 && position[i] < victim_position) {
      victim = slot[i];
      victim_position = position[i];
    }
  }
  if (victim >= 0) return victim;
  float victim_score = 0.0f;
  StoreF(score, best_score);
  StoreI(position, best_position);
  StoreI(slot, best_slot);
  for (int i = 0; i < kLanes; ++i) {
    if (slot[i] < 0) continue;
    if (victim < 0 || score[i] < victim_score ||
        (score[i] == victim_score && position[i] < victim_position)) {
      victim = slot[i];
      victim_score = score[i];
      victim_position = position[i];
    }
  }
  return victim;
}

}  // namespace hydrant::kernels::cpu::HYDRANT_ISA

#endif  // HYDRANT_KERNELS_CPU_ISA_VICTIM_H_
