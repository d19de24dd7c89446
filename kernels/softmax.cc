#include "kernels/softmax.h"

#include <algorithm>
#include <limits>

#include "kernels/check.h"
#include "kernels/sampling.h"

namespace hydrant::kernels {
namespace {

// Independent accumulators: the compiler may not reorder a floating-point reduction by itself.
constexpr size_t kLanes = 16;
constexpr size_t kBlock = 256;
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// The masses of up to kBlock tokens.
void MassesOf(const Weighed& weighed, std::span<const float> block, float* masses) {
  for (size_t i = 0; i < block.size(); ++i) {
    const float weight = Weight(block[i], weighed.max, weighed.temperature);
    masses[i] = MassOf(KeepIf(weight >= weighed.min_weight, weight), weighed.mass_of_one);
  }
}

double SumOfBlock(const Weighed& weighed, std::span<const float> block) {
  float masses[kBlock];
  MassesOf(weighed, block, masses);
  std::fill(masses + block.size(), masses + kBlock, 0.0f);
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

float MaxLogit(std::span<const float> logits) {
  float lanes[kLanes];
  std::fill_n(lanes, kLanes, kMinusInfinity);
  size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes) {
    for (size_t j = 0; j < kLanes; ++j) {
      const float x = logits[i + j];
      lanes[j] = x > lanes[j] ? x : lanes[j];
    }
  }
  for (; i < logits.size(); ++i) lanes[0] = logits[i] > lanes[0] ? logits[i] : lanes[0];
  return *std::max_element(lanes, lanes + kLanes);
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

double SumMasses(const Weighed& weighed) {
  double sum = 0;
  for (size_t begin = 0; begin < weighed.logits.size(); begin += kBlock) {
    sum += SumOfBlock(weighed, BlockAt(weighed.logits, begin));
  }
  return sum;
}

int32_t ReachMass(const Weighed& weighed, double mass) {
  for (size_t begin = 0; begin < weighed.logits.size(); begin += kBlock) {
    const std::span<const float> block = BlockAt(weighed.logits, begin);
    const double sum = SumOfBlock(weighed, block);
    if (sum < mass) {
      mass -= sum;
      continue;
    }
    float masses[kBlock];
    MassesOf(weighed, block, masses);
    size_t i = 0;
    for (; masses[i] < mass; ++i) mass -= masses[i];
    return static_cast<int32_t>(begin + i);
  }
  HYDRANT_CHECK(false);
}

}  // namespace hydrant::kernels
