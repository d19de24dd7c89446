// The tokens that a draw may still choose: top-k, top-p and min-p without sorting the vocabulary.
// "Best" is by logit, ties by the lower id, so every set below is unique. Not thread-safe.

#ifndef HYDRANT_ENGINE_CANDIDATES_H_
#define HYDRANT_ENGINE_CANDIDATES_H_

#include <cstdint>
#include <span>
#include <vector>

namespace hydrant::engine {

struct Candidate {
  float logit;
  int32_t id;
  float weight;  // exp((logit - best logit) / temperature)
};

// Whether `a` comes first when tokens are sorted by probability.
inline bool IsBetter(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

// Replaces `best` with the `count` best of `logits` in no order (fewer when the others are NaN or
// -inf), weights unset. Expected time linear in the vocabulary; allocates up to twice `count`.
void SelectBest(std::span<const float> logits, int32_t count, std::vector<Candidate>* best);

class Candidates {
 public:
  // Applies top_k (0: off), then top_p to what is left, renormalised (1: off), then min_p (0: off).
  // One of the first two is on: without them softmax.h's DrawByWeight needs no candidates.
  // top_p keeps the smallest prefix of the tokens sorted by probability whose mass reaches it;
  // min_p keeps those at least min_p times as probable as the best. At least one is kept, if any
  // logit is above -inf. `max` is MaxLogit(logits); temperature > 0.
  void Filter(std::span<const float> logits, float max, float temperature, int32_t top_k,
              float top_p, float min_p);

  // One of the candidates by weight, for `u` uniform in [0, 1). There must be one.
  int32_t Draw(double u);

  // In no order.
  std::span<const Candidate> kept() const { return kept_; }

 private:
  // Fills kept_ with every token that top_p could keep; returns the weight of the whole vocabulary.
  double SelectForTopP(std::span<const float> logits, float max, float temperature, float top_p);
  double SumOfWeights(size_t begin, size_t end) const;
  // The least count such that the best `count` candidates weigh `mass` together; moves them to the
  // front, the last of them at count - 1. Weighted quickselect: linear expected time.
  size_t PrefixReaching(double mass);

  std::vector<Candidate> kept_;
};

}  // namespace hydrant::engine

#endif  // HYDRANT_ENGINE_CANDIDATES_H_
