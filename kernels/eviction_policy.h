// Which tokens a sequence keeps. A value on one page; the arithmetic that applies it is
// Backend::Compact (after the prompt) and Backend::Evict (after each decode step).

#ifndef HYDRANT_KERNELS_EVICTION_POLICY_H_
#define HYDRANT_KERNELS_EVICTION_POLICY_H_

#include <cstdint>

namespace hydrant::kernels {

// Counts are tokens for each layer and KV head. `recent` >= 1.
//   WINDOW     sink = heavy = 0
//   STREAMING  heavy = 0                      (StreamingLLM, Xiao et al. 2023)
//   H2O        heavy > 0                      (heavy-hitter oracle, Zhang et al. 2023)
// FULL is the absence of a policy. A budget of at least the sequence's length evicts nothing.
struct EvictionPolicy {
  int32_t sink = 0;    // the first `sink` positions are never evicted
  int32_t heavy = 0;   // of the rest, those with the largest accumulated attention
  int32_t recent = 1;  // the newest `recent` positions are never evicted

  constexpr int32_t budget() const { return sink + heavy + recent; }
  // Whether the choice of victims depends on scores; else age decides alone, and nothing has to be
  // accumulated. `windows`: whether layers have a sliding window, since sinks that it has passed by
  // leave their room to others.
  bool needs_scores(bool windows) const { return heavy > 0 || (windows && sink > 0); }

  friend bool operator==(const EvictionPolicy&, const EvictionPolicy&) = default;
};

}  // namespace hydrant::kernels

#endif  // HYDRANT_KERNELS_EVICTION_POLICY_H_
