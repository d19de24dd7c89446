#include "kernels/softmax.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/check.h"
#include "kernels/sampling.h"

// Compiled for several instruction sets, of which the program takes the best that runs. All give
// the same bits: nothing is fused (-ffp-contract=off), and the order of sums is written out.
#if defined(__x86_64__) && !defined(HYDRANT_ONE_ISA)
#define HYDRANT_FOR_EACH_ISA __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define HYDRANT_FOR_EACH_ISA
#endif

namespace hydrant::kernels {
namespace {

// Independent accumulators: the compiler may not reorder a floating-point reduction by itself.
constexpr size_t kLanes = 16;
constexpr size_t kBlock = 256;
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// The masses of a block, zeros past its end; returns their sum.
HYDRANT_FOR_EACH_ISA
double MassesOf(const Weighed& weighed, std::span<const float> block, float* masses) {
  const float max = weighed.max, temperature = weighed.temperature;
  const float min_weight = weighed.min_weight, mass_of_one = weighed.mass_of_one;
  for (size_t i = 0; i < block.size(); ++i) {
    const float weight = Weight(block[i], max, temperature);
    masses[i] = MassOf(KeepIf(weight >= min_weight, weight), mass_of_one);
  }
  for (size_t i = block.size(); i < kBlock; ++i) masses[i] = 0.0f;
  double lanes[kLanes] = {};
  for (size_t i = 0; i < kBlock; i += kLanes) {
    for (size_t j = 0; j < kLanes; ++j) lanes[j] += masses[i + j];
  }
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

std::span<const float> BlockAt(std::span<const float> logits, size_t begin) {
  return logits.subspan(begin, std::min(kBlock, logits.size() - begin));
}

}  // namespace

HYDRANT_FOR_EACH_ISA
float MaxLogit(std::span<const float> logits) {
  using Lanes = float __attribute__((vector_size(kLanes * sizeof(float))));
  Lanes lanes = kMinusInfinity - Lanes{};
  size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes) {
    Lanes x;
    std::memcpy(&x, &logits[i], sizeof(x));
    lanes = x > lanes ? x : lanes;
  }
  float max = kMinusInfinity;
  for (; i < logits.size(); ++i) max = logits[i] > max ? logits[i] : max;
  for (size_t j = 0; j < kLanes; ++j) max = lanes[j] > max ? lanes[j] : max;
  return max;
}

HYDRANT_FOR_EACH_ISA
bool AnyAbove(std::span<const float> logits, float threshold) {
  int found = 0;
  for (const float x : logits) found |= x > threshold;
  return found != 0;
}

int32_t FirstEqual(std::span<const float> logits, float max) {
  size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes) {
    int found = 0;
    for (size_t j = 0; j < kLanes; ++j) found |= logits[i + j] == max;
    if (found) break;
  }
  while (i < logits.size() && logits[i] != max) ++i;
  HYDRANT_CHECK(i < logits.size());
  return static_cast<int32_t>(i);
}

double SumMasses(const Weighed& weighed, std::vector<double>* sums_of_blocks) {
  if (sums_of_blocks != nullptr) sums_of_blocks->clear();
  float masses[kBlock];
  double sum = 0;
  for (size_t begin = 0; begin < weighed.logits.size(); begin += kBlock) {
    const double block = MassesOf(weighed, BlockAt(weighed.logits, begin), masses);
    if (sums_of_blocks != nullptr) sums_of_blocks->push_back(block);
    sum += block;
  }
  return sum;
}

int32_t ReachMass(const Weighed& weighed, std::span<const double> sums_of_blocks, double mass) {
  size_t block = 0;
  for (; sums_of_blocks[block] < mass; ++block) mass -= sums_of_blocks[block];
  const size_t begin = block * kBlock;
  HYDRANT_CHECK(begin < weighed.logits.size());
  float masses[kBlock];
  MassesOf(weighed, BlockAt(weighed.logits, begin), masses);
  size_t i = 0;
  for (; masses[i] < mass; ++i) mass -= masses[i];
  return static_cast<int32_t>(begin + i);
}

}  // namespace hydrant::kernels
