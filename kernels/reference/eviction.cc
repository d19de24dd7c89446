// Who goes. The rule stands in RankVictims alone; Evict takes its first, Compact the first few.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

#include "kernels/check.h"
#include "kernels/evicted_store.h"
#include "kernels/reference/reference_backend.h"

namespace hydrant::kernels {
namespace {

// Sorts before another when it is to be evicted earlier.
struct Rank {
  enum Class { kPassedByWindow, kCandidate, kProtected };
  Class rank_class;
  float score;  // counts among candidates only
  int32_t position;

  friend bool operator<(const Rank& a, const Rank& b) {
    return std::tie(a.rank_class, a.score, a.position) <
           std::tie(b.rank_class, b.score, b.position);
  }
};

Rank RankOf(const EvictionItem& item, int32_t window, int32_t position, float score) {
  const int32_t next = item.newest_position + 1;
  if (window > 0 && position <= next - window) return {Rank::kPassedByWindow, 0.0f, position};
  const bool sink = position < item.policy.sink;
  const bool recent = position > item.newest_position - item.policy.recent;
  if (sink || recent) return {Rank::kProtected, 0.0f, position};
  // NaN, from a model that overflows, has no order; such a slot is as good as never looked at.
  return {Rank::kCandidate, std::isnan(score) ? 0.0f : score, position};
}

}  // namespace

void ReferenceBackend::RankVictims(const EvictionItem& item, int layer, int head,
                                   ReferenceKvStore& kv) {
  HYDRANT_CHECK(item.policy.sink >= 0 && item.policy.heavy >= 0 && item.policy.recent >= 1);
  HYDRANT_CHECK(item.num_slots <= static_cast<int64_t>(ranked_slots_.size()));
  const int32_t window = kv.geometry().window(layer);
  const auto rank = [&](int32_t slot) {
    const size_t row = kv.Row(layer, head, item.blocks, slot);
    return RankOf(item, window, kv.position(row), kv.score(row));
  };
  const auto begin = ranked_slots_.begin();
  std::iota(begin, begin + item.num_slots, 0);
  std::sort(begin, begin + item.num_slots, [&](int32_t a, int32_t b) { return rank(a) < rank(b); });
}

void ReferenceBackend::Evict(std::span<const EvictionItem> items, KvStore& kv) {
  ReferenceKvStore& store = ReferenceKvStore::From(kv);
  const KvGeometry& geometry = kv.geometry();
  for (const EvictionItem& item : items) {
    HYDRANT_CHECK(item.num_slots == item.policy.budget() + 1);
    for (int layer = 0; layer < geometry.layers; ++layer) {
      for (int head = 0; head < geometry.kv_heads; ++head) {
        RankVictims(item, layer, head, store);
        const int32_t victim = ranked_slots_[0];
        item.holes[layer * geometry.kv_heads + head] = victim;
        if (item.evicted != nullptr) {
          HandOver(item, layer, head, 0, victim, kv, evicted_row_.data());
        }
      }
    }
  }
}

void ReferenceBackend::Compact(std::span<const EvictionItem> items, KvStore& kv) {
  ReferenceKvStore& store = ReferenceKvStore::From(kv);
  const KvGeometry& geometry = kv.geometry();
  for (const EvictionItem& item : items) {
    const int32_t budget = item.policy.budget();
    if (item.num_slots <= budget) continue;
    for (int layer = 0; layer < geometry.layers; ++layer) {
      for (int head = 0; head < geometry.kv_heads; ++head) {
        RankVictims(item, layer, head, store);
        std::fill(evicted_.begin(), evicted_.begin() + item.num_slots, false);
        for (int i = 0; i < item.num_slots - budget; ++i) evicted_[ranked_slots_[i]] = true;
        int32_t index = 0;
        for (int32_t slot = 0; slot < item.num_slots && item.evicted != nullptr; ++slot) {
          if (evicted_[slot]) HandOver(item, layer, head, index++, slot, kv, evicted_row_.data());
        }
        // Survivors of the tail go into the holes of the head, both in slot order.
        int32_t hole = 0;
        for (int32_t slot = budget; slot < item.num_slots; ++slot) {
          if (evicted_[slot]) continue;
          while (!evicted_[hole]) ++hole;
          store.Move(store.Row(layer, head, item.blocks, slot),
                     store.Row(layer, head, item.blocks, hole));
          ++hole;
        }
      }
    }
  }
}

}  // namespace hydrant::kernels
