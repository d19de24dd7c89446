// Reductions over a vocabulary's logits for backends that compute in the host's memory, written so
// that the compiler vectorises them, for several instruction sets. A NaN counts as -inf everywhere:
// it has no mass and is never the largest. An infinite logit is handled too: it takes all the mass,
// shared with its equals.

#ifndef HYDRANT_KERNELS_SOFTMAX_H_
#define HYDRANT_KERNELS_SOFTMAX_H_

#include <cstdint>
#include <span>
#include <vector>

namespace hydrant::kernels {

// -inf when there is none.
float MaxLogit(std::span<const float> logits);

bool AnyAbove(std::span<const float> logits, float threshold);

// The lowest index of `max`, which is one of the logits.
int32_t FirstEqual(std::span<const float> logits, float max);

// The logits of a vocabulary (or a part of it, with the `mass_of_one` of the whole) and what their
// masses follow from, see sampling.h.
struct Weighed {
  std::span<const float> logits;
  float max;
  float temperature;
  float min_weight;  // of those that count
  float mass_of_one;
};

// Exact. Keeps what ReachMass needs in `sums_of_blocks`, unless it is null.
double SumMasses(const Weighed& weighed, std::vector<double>* sums_of_blocks = nullptr);

// The index at which the masses, added up in order, reach `mass`, which they do.
int32_t ReachMass(const Weighed& weighed, std::span<const double> sums_of_blocks, double mass);

}  // namespace hydrant::kernels

#endif  // HYDRANT_KERNELS_SOFTMAX_H_
