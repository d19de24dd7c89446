// Reductions over a vocabulary's logits, written so that the compiler vectorises them. A NaN counts
// as -inf everywhere: it has no weight and is never the largest. An infinite logit is handled too:
// it takes all the weight, shared with its equals.

#ifndef HYDRANT_ENGINE_SOFTMAX_H_
#define HYDRANT_ENGINE_SOFTMAX_H_

#include <bit>
#include <cstdint>
#include <span>

namespace hydrant::engine {

// `value` or 0, without a branch: a floating-point select would keep a loop from being vectorised,
// as comparisons may trap.
inline float KeepIf(bool keep, float value) {
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) & -static_cast<uint32_t>(keep));
}

// exp(x) for x <= 0, relative error below 2e-7; 0 below -87. Cephes' expf: x = n ln 2 + r with n
// rounded by adding 1.5 * 2^23, a polynomial in r, and n added to the exponent's bits.
inline float ExpOfNonPositive(float x) {
  constexpr float kRound = 12582912.0f;
  const float shifted = x * 1.44269504088896341f + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const uint32_t exponent = (std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(kRound))
                            << 23;
  return KeepIf(x > -87.0f, std::bit_cast<float>(std::bit_cast<uint32_t>(p) + exponent));
}

// exp((logit - max) / temperature): the token's weight beside the best one's, which is 1.
inline float Weight(float logit, float max, float temperature) {
  return ExpOfNonPositive(KeepIf(logit != max, (logit - max) / temperature));
}

// -inf when there is none.
float MaxLogit(std::span<const float> logits);

// The lowest index of the largest logit; -1 when none is above -inf.
int32_t ArgMax(std::span<const float> logits);

// Sum of the weights, of those at least `min_weight`; in double.
double SumWeights(std::span<const float> logits, float max, float temperature, float min_weight);

// The index that `u`, uniform in [0, 1), chooses by those weights, in index order. Some logit must
// be above -inf.
int32_t DrawByWeight(std::span<const float> logits, float max, float temperature, float min_weight,
                     double u);

}  // namespace hydrant::engine

#endif  // HYDRANT_ENGINE_SOFTMAX_H_
