// How a token is chosen from a row of logits; Backend::Sample does it. Every backend gives the same
// token, whatever order it works in: weights have the same bits everywhere, and are rounded to
// masses, whole numbers whose sum is exact.
//
// With x[id] the logits, changed as LogitChange says:
//   A logit that is NaN or -inf is never chosen. The best token has the largest logit; of equal
//   ones the lower id is the better.
//   temperature 0: the best. Otherwise a token weighs w = exp((x - largest) / temperature), and has
//   the mass MassOf(w). There are kept
//     top_k  the so many best (0: all),
//     top_p  of these the fewest, best first, whose mass is at least top_p times theirs (1: all),
//     min_p  of these those that weigh min_p or more;
//   and the first token is chosen, by id, at which the mass of those kept, added up in the order of
//   ids, is more than u times the whole.
//
// For nvcc too: no standard header beyond these.

#ifndef HYDRANT_KERNELS_SAMPLING_H_
#define HYDRANT_KERNELS_SAMPLING_H_

#include <cstdint>
#include <span>

namespace hydrant::kernels {

// What is done to a token's logit before anything else.
struct LogitChange {
  int32_t id = 0;
  float bias = 0.0f;  // added
  // Then towards the less likely on either side of 0: CTRL's repetition penalty (Keskar et al.
  // 2019), as everybody reads it.
  float penalty = 1.0f;
  float subtrahend = 0.0f;  // then subtracted; infinity: the token cannot be chosen
};

constexpr float Changed(const LogitChange& change, float logit) {
  logit += change.bias;
  logit = logit > 0.0f ? logit / change.penalty : logit * change.penalty;
  return logit - change.subtrahend;
}

struct TokenDraw {
  int64_t row = 0;                       // of the logits
  std::span<const LogitChange> changes;  // of distinct tokens of the vocabulary
  float temperature = 0.0f;
  int32_t top_k = 0;
  float top_p = 1.0f;
  float min_p = 0.0f;
  double u = 0.0;  // in [0, 1)
};

// `value` or 0, without a branch: a floating-point select would keep a loop from being vectorised,
// as comparisons may trap.
constexpr float KeepIf(bool keep, float value) {
  return __builtin_bit_cast(
      float, __builtin_bit_cast(uint32_t, value) & (uint32_t{0} - static_cast<uint32_t>(keep)));
}

// exp(x) for x <= 0, relative error below 2e-7; 0 below -87. Cephes' expf: x = n ln 2 + r with n
// rounded by adding 1.5 * 2^23, a polynomial in r, and n added to the exponent's bits.
constexpr float ExpOfNonPositive(float x) {
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
  const uint32_t exponent =
      (__builtin_bit_cast(uint32_t, shifted) - __builtin_bit_cast(uint32_t, kRound)) << 23;
  return KeepIf(x > -87.0f, __builtin_bit_cast(float, __builtin_bit_cast(uint32_t, p) + exponent));
}

// exp((logit - max) / temperature): the token's weight beside the best one's, which is 1. 0 for
// NaN.
constexpr float Weight(float logit, float max, float temperature) {
  return ExpOfNonPositive(KeepIf(logit != max, (logit - max) / temperature));
}

// The mass of weight 1: a power of two, so large that the masses of a whole vocabulary, and every
// sum of some of them, are whole numbers up to 2^52, which double adds exactly.
constexpr float MassOfOne(int64_t vocabulary) {
  uint64_t mass = uint64_t{1} << 52;
  for (; vocabulary > 0; vocabulary /= 2) mass /= 2;
  return static_cast<float>(mass);
}

// `weight` times MassOfOne, to the nearest whole number (ties to even).
constexpr float MassOf(float weight, float mass_of_one) {
  constexpr float kWhole = 8388608.0f;  // 2^23: from here on all are
  const float mass = weight * mass_of_one;
  const bool whole = mass >= kWhole;
  return KeepIf(whole, mass) + KeepIf(!whole, (mass + kWhole) - kWhole);
}

// What a sum of masses, added up token by token, must reach: whole numbers again.
// For top_p of tokens that have `mass` together...
constexpr double MassForTopP(float top_p, double mass) {
  const double share = static_cast<double>(top_p) * mass;
  const auto below = static_cast<double>(static_cast<int64_t>(share));
  return below < share || below == 0.0 ? below + 1.0 : below;
}
// ... and for the draw of `u`: more than u * mass, and never more than `mass`.
constexpr double MassForDraw(double u, double mass) {
  return static_cast<double>(static_cast<int64_t>(u * mass)) + 1.0;
}

}  // namespace hydrant::kernels

#endif  // HYDRANT_KERNELS_SAMPLING_H_
