// The judge of eviction: its rules read literally, one layer and one KV head at a time, on a list
// of (position, score). Shares no code with any backend and is meant to be slow and obvious.

#ifndef HYDRANT_TESTS_KERNELS_EVICTION_ORACLE_H_
#define HYDRANT_TESTS_KERNELS_EVICTION_ORACLE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/eviction_policy.h"

namespace hydrant::kernels {

struct ScoredPosition {
  int32_t position = 0;
  double score = 0.0;
};

// A slot whose position the next token can no longer attend to, the oldest of them; -1: none.
inline int32_t OldestBehindWindow(const std::vector<ScoredPosition>& held, int32_t newest,
                                  int32_t window) {
  int32_t oldest = -1;
  for (const ScoredPosition& token : held) {
    const int32_t next = newest + 1;
    const bool visible = window == 0 || token.position > next - window;
    if (!visible && (oldest == -1 || token.position < oldest)) oldest = token.position;
  }
  return oldest;
}

// Whether position is one of the `recent` newest, the newest itself included.
inline bool IsRecent(int32_t position, int32_t newest, int32_t recent) {
  for (int32_t i = 0; i < recent; ++i) {
    if (position == newest - i) return true;
  }
  return false;
}

// The position that one decode step evicts.
inline int32_t OracleVictim(const std::vector<ScoredPosition>& held, const EvictionPolicy& policy,
                            int32_t newest, int32_t window) {
  if (const int32_t passed = OldestBehindWindow(held, newest, window); passed != -1) return passed;
  ScoredPosition victim{-1, 0.0};
  for (const ScoredPosition& token : held) {
    if (token.position < policy.sink) continue;
    if (IsRecent(token.position, newest, policy.recent)) continue;
    const bool lower = token.score < victim.score;
    const bool as_low_and_older = token.score == victim.score && token.position < victim.position;
    if (victim.position == -1 || lower || as_low_and_older) victim = token;
  }
  EXPECT_NE(victim.position, -1);
  return victim.position;
}

// The positions that are kept when a prompt is done, ascending.
inline std::vector<int32_t> OracleKept(std::vector<ScoredPosition> held,
                                       const EvictionPolicy& policy, int32_t newest,
                                       int32_t window) {
  const size_t budget = policy.sink + policy.heavy + policy.recent;
  std::vector<int32_t> kept;
  if (window == 0 && held.size() > budget) {
    // The first `sink`, the last `recent`, and the top `heavy` of the rest.
    std::vector<ScoredPosition> rest;
    for (const ScoredPosition& token : held) {
      if (token.position < policy.sink || IsRecent(token.position, newest, policy.recent)) {
        kept.push_back(token.position);
      } else {
        rest.push_back(token);
      }
    }
    std::sort(rest.begin(), rest.end(), [](const ScoredPosition& a, const ScoredPosition& b) {
      return a.score > b.score || (a.score == b.score && a.position > b.position);
    });
    // Where earlier compactions have taken from the first positions, more of the rest fit.
    for (size_t i = 0; kept.size() < budget; ++i) kept.push_back(rest[i].position);
  } else {
    // Too many tokens go one by one: behind the window first, then as in decode.
    while (held.size() > budget) {
      const int32_t victim = OracleVictim(held, policy, newest, window);
      std::erase_if(held, [&](const ScoredPosition& t) { return t.position == victim; });
    }
    for (const ScoredPosition& token : held) kept.push_back(token.position);
  }
  std::sort(kept.begin(), kept.end());
  return kept;
}

}  // namespace hydrant::kernels

#endif  // HYDRANT_TESTS_KERNELS_EVICTION_ORACLE_H_
