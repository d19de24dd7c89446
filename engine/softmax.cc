#include "engine/softmax.h"

#include <algorithm>
#include <limits>

#include "kernels/check.h"

namespace hydrant::engine {
namespace {

// Independent accumulators: the compiler may not reorder a floating-point reduction by itself.
constexpr size_t kLanes = 16;
constexpr size_t kBlock = 256;
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

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

int32_t ArgMax(std::span<const float> logits) {
  const float max = MaxLogit(logits);
  if (max == kMinusInfinity) return -1;
  size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes) {
    int found = 0;
    for (size_t j = 0; j < kLanes; ++j) found |= logits[i + j] == max;
    if (found) break;
  }
  while (logits[i] != max) ++i;
  return static_cast<int32_t>(i);
}

double SumWeights(std::span<const float> logits, float max, float temperature, float min_weight) {
  double lanes[kLanes] = {};
  float weights[kBlock];
  for (size_t begin = 0; begin < logits.size(); begin += kBlock) {
    const float* block = logits.data() + begin;
    const size_t size = std::min(kBlock, logits.size() - begin);
    for (size_t i = 0; i < size; ++i) {
      const float w = Weight(block[i], max, temperature);
      weights[i] = KeepIf(w >= min_weight, w);
    }
    std::fill(weights + size, weights + kBlock, 0.0f);
    for (size_t i = 0; i < kBlock; i += kLanes) {
      for (size_t j = 0; j < kLanes; ++j) lanes[j] += weights[i + j];
    }
  }
  double sum = 0;
  for (double lane : lanes) sum += lane;
  return sum;
}

int32_t DrawByWeight(std::span<const float> logits, float max, float temperature, float min_weight,
                     double u) {
  double left = u * SumWeights(logits, max, temperature, min_weight);
  size_t last_block = 0;
  for (size_t begin = 0; begin < logits.size(); begin += kBlock) {
    const auto block = logits.subspan(begin, std::min(kBlock, logits.size() - begin));
    const double mass = SumWeights(block, max, temperature, min_weight);
    if (mass == 0) continue;
    last_block = begin;
    if (left < mass) break;
    left -= mass;
  }
  int32_t drawn = -1;
  for (size_t i = last_block; i < std::min(last_block + kBlock, logits.size()); ++i) {
    const float w = Weight(logits[i], max, temperature);
    if (w < min_weight || w == 0) continue;
    drawn = static_cast<int32_t>(i);
    if (left < w) break;
    left -= w;
  }
  // Past the end only by rounding: then the last that could be drawn.
  HYDRANT_CHECK(drawn >= 0);
  return drawn;
}

}  // namespace hydrant::engine
