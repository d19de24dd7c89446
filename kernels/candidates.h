// The tokens that a draw may still choose: top-k, top-p and min-p (sampling.h) without sorting the
// vocabulary, in the host's memory. Not thread-safe.

#ifndef HYDRANT_KERNELS_CANDIDATES_H_
#define HYDRANT_KERNELS_CANDIDATES_H_

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/sampling.h"

namespace hydrant::kernels {

struct Candidate {
  float logit;
  int32_t id;
  float mass;
};

// Whether `a` comes first when tokens are sorted by probability.
inline bool IsBetter(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

// Replaces `best` with the `count` best of `logits` in no order (fewer when the others are NaN or
// -inf), masses unset. Expected time linear in the vocabulary; allocates up to twice `count`.
void SelectBest(std::span<const float> logits, int32_t count, std::vector<Candidate>* best);

class Candidates {
 public:
  // Whatever is filtered of so many tokens, nothing is allocated.
  void Reserve(int64_t vocabulary);
  // Applies top_k, top_p and min_p of `draw`, whose changes `logits` have and whose temperature is
  // above 0. One of the first two is on: without them softmax.h's ReachMass needs no candidates.
  // `max` is MaxLogit(logits), above -inf.
  void Filter(std::span<const float> logits, float max, const TokenDraw& draw);

  // The candidate that `u` chooses.
  int32_t Draw(double u) const;

  // In the order of ids.
  std::span<const Candidate> kept() const { return kept_; }

 private:
  // Fills kept_ with every token that top_p could keep; returns the mass of the whole vocabulary.
  double SelectForTopP(std::span<const float> logits, float max, const TokenDraw& draw,
                       float mass_of_one);
  // Leaves the fewest, best first, that have `mass` together.
  void KeepBest(double mass);

  std::vector<Candidate> kept_;
  std::vector<Candidate> selected_;  // KeepBest's
};

}  // namespace hydrant::kernels

#endif  // HYDRANT_KERNELS_CANDIDATES_H_
