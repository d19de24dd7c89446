#include "kernels/cpu/eviction.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/check.h"
#include "kernels/evicted_store.h"

namespace hydrant::kernels::cpu {
namespace {

// The bounds that decide about a slot, by position.
struct Bounds {
  int32_t sink_end;      // below: protected
  int32_t recent_begin;  // from here on: protected
  int32_t expired_end;   // below: the window has passed it by, protected or not
};

Bounds BoundsOf(const EvictionItem& item, int32_t window) {
  const int64_t next = int64_t{item.newest_position} + 1;
  return {.sink_end = item.policy.sink,
          .recent_begin = static_cast<int32_t>(next - item.policy.recent),
          .expired_end = window > 0 ? static_cast<int32_t>(next - window + 1)
                                    : std::numeric_limits<int32_t>::min()};
}

// Sorts slots by who goes first: expired ones by age, then the others by score and age, last the
// protected. Positions differ, so ranks do.
uint64_t Rank(const Bounds& bounds, float score, int32_t position) {
  const auto age = static_cast<uint32_t>(position);
  if (position < bounds.expired_end) return age;
  if (position < bounds.sink_end || position >= bounds.recent_begin) {
    return std::numeric_limits<uint64_t>::max() - std::numeric_limits<uint32_t>::max() + age;
  }
  // Floats in the order of unsigned integers; a NaN counts as 0, as both zeros do.
  const uint32_t bits = std::isnan(score) || score == 0.0f ? 0 : std::bit_cast<uint32_t>(score);
  const uint32_t ordered = (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
  return (uint64_t{ordered} << 32) | age;
}

int64_t PhysicalSlot(const EvictionItem& item, int32_t slot) {
  return int64_t{item.blocks[slot / kBlockSlots]} * kBlockSlots + slot % kBlockSlots;
}

void CheckItem(const EvictionItem& item, int64_t max_slots) {
  HYDRANT_CHECK(item.policy.sink >= 0 && item.policy.heavy >= 0 && item.policy.recent >= 1);
  HYDRANT_CHECK(item.num_slots <= max_slots);
}

}  // namespace

EvictionRunner::EvictionRunner(const KernelTable& kernels, ThreadPool& pool)
    : kernels_(kernels), pool_(pool) {}

void EvictionRunner::Reserve(int64_t max_slots, int64_t head_dim) {
  max_slots_ = max_slots;
  ranks_.assign(pool_.size(), std::vector<uint64_t>(2 * max_slots));
  rows_.assign(pool_.size(), std::vector<float>(2 * head_dim));
}

void EvictionRunner::Evict(std::span<const EvictionItem> items, CpuKvStore& kv) {
  for (const EvictionItem& item : items) {
    CheckItem(item, max_slots_);
    HYDRANT_CHECK(item.num_slots == item.policy.budget() + 1);
  }
  const int heads = kv.geometry().kv_heads;
  const int64_t strips = int64_t{kv.geometry().layers} * heads;
  const auto count = static_cast<int64_t>(items.size()) * strips;
  pool_.ForEach(count, pool_.Grain(count), [&](int64_t task, int member) {
    const EvictionItem& item = items[task / strips];
    const auto strip = static_cast<int>(task % strips);
    const int layer = strip / heads, head = strip % heads;
    const Bounds bounds = BoundsOf(item, kv.geometry().window(layer));
    item.holes[strip] = kernels_.find_victim({.scores = kv.scores(layer, head),
                                              .positions = kv.positions(layer, head),
                                              .blocks = item.blocks,
                                              .num_slots = item.num_slots,
                                              .sink_end = bounds.sink_end,
                                              .recent_begin = bounds.recent_begin,
                                              .expired_end = bounds.expired_end});
    // More slots are held than the policy protects.
    HYDRANT_CHECK(item.holes[strip] >= 0);
    if (item.evicted != nullptr) {
      HandOver(item, layer, head, 0, item.holes[strip], kv, rows_[member].data());
    }
  });
}

void EvictionRunner::Compact(std::span<const EvictionItem> items, CpuKvStore& kv) {
  for (const EvictionItem& item : items) CheckItem(item, max_slots_);
  const int heads = kv.geometry().kv_heads;
  const int64_t strips = int64_t{kv.geometry().layers} * heads;
  pool_.ForEach(static_cast<int64_t>(items.size()) * strips, 1, [&](int64_t task, int member) {
    const EvictionItem& item = items[task / strips];
    if (item.num_slots <= item.policy.budget()) return;
    const auto strip = static_cast<int>(task % strips);
    CompactHead(item, strip / heads, strip % heads, member, kv);
  });
}

void EvictionRunner::CompactHead(const EvictionItem& item, int layer, int head, int member,
                                 CpuKvStore& kv) {
  const Bounds bounds = BoundsOf(item, kv.geometry().window(layer));
  const float* scores = kv.scores(layer, head);
  const int32_t* positions = kv.positions(layer, head);
  uint64_t* ranks = ranks_[member].data();
  uint64_t* sorted = ranks + max_slots_;
  for (int32_t slot = 0; slot < item.num_slots; ++slot) {
    const int64_t at = PhysicalSlot(item, slot);
    ranks[slot] = Rank(bounds, scores[at], positions[at]);
  }
  const int32_t budget = item.policy.budget();
  std::copy(ranks, ranks + item.num_slots, sorted);
  uint64_t* last_evicted = sorted + (item.num_slots - budget - 1);
  std::nth_element(sorted, last_evicted, sorted + item.num_slots);
  int32_t index = 0;
  for (int32_t slot = 0; slot < item.num_slots && item.evicted != nullptr; ++slot) {
    if (ranks[slot] > *last_evicted) continue;
    HandOver(item, layer, head, index++, slot, kv, rows_[member].data());
  }
  // Survivors of the tail go into the holes of the head, both in slot order.
  int32_t hole = 0;
  for (int32_t slot = budget; slot < item.num_slots; ++slot) {
    if (ranks[slot] <= *last_evicted) continue;
    while (ranks[hole] > *last_evicted) ++hole;
    kv.MoveSlot(layer, head, PhysicalSlot(item, slot), PhysicalSlot(item, hole));
    ++hole;
  }
}

}  // namespace hydrant::kernels::cpu
