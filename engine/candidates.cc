#include "engine/candidates.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/softmax.h"
#include "kernels/check.h"

namespace hydrant::engine {
namespace {

// Blocks without a candidate are passed over by their maximum alone.
constexpr size_t kBlock = 64;

// Calls visit(id, logit) for the logits above a threshold, which `visit` returns anew.
template <typename Visit>
void ForEachAbove(std::span<const float> logits, float threshold, Visit&& visit) {
  for (size_t begin = 0; begin < logits.size(); begin += kBlock) {
    const size_t end = std::min(begin + kBlock, logits.size());
    if (!(MaxLogit(logits.subspan(begin, end - begin)) > threshold)) continue;
    for (size_t i = begin; i < end; ++i) {
      if (logits[i] > threshold) threshold = visit(static_cast<int32_t>(i), logits[i]);
    }
  }
}

}  // namespace

void SelectBest(std::span<const float> logits, int32_t count, std::vector<Candidate>* best) {
  best->clear();
  if (count <= 0) return;
  const size_t k = count;
  const size_t capacity = std::min(std::max(2 * k, kBlock), logits.size());
  best->reserve(capacity);
  const auto keep_best = [&] {
    std::nth_element(best->begin(), best->begin() + (k - 1), best->end(), IsBetter);
    best->resize(k);
  };
  float threshold = -std::numeric_limits<float>::infinity();
  ForEachAbove(logits, threshold, [&](int32_t id, float logit) {
    best->push_back({logit, id, 0.0f});
    if (best->size() == capacity && capacity > k) {
      keep_best();
      // Of equals the lower id wins, and those that follow are higher.
      threshold = best->back().logit;
    }
    return threshold;
  });
  if (best->size() > k) keep_best();
}

double Candidates::SelectForTopP(std::span<const float> logits, float max, float temperature,
                                 float top_p) {
  // A token lighter than (1 - p) / n of the whole is not in the prefix: it and those after it, n at
  // the most, would weigh less than 1 - p together. The margin covers rounding.
  const double total = SumWeights(logits, max, temperature, 0.0f);
  const double lightest = (1.0 - top_p) * total / static_cast<double>(logits.size());
  float threshold =
      static_cast<float>(max + temperature * (std::log(lightest) - 0.001)) - 1e-6f * std::abs(max);
  if (!(threshold < max)) threshold = std::nextafter(max, -std::numeric_limits<float>::infinity());
  kept_.clear();
  kept_.reserve(logits.size());
  ForEachAbove(logits, threshold, [&](int32_t id, float logit) {
    kept_.push_back({logit, id, 0.0f});
    return threshold;
  });
  return total;
}

double Candidates::SumOfWeights(size_t begin, size_t end) const {
  double sum = 0;
  for (size_t i = begin; i < end; ++i) sum += kept_[i].weight;
  return sum;
}

size_t Candidates::PrefixReaching(double mass) {
  size_t begin = 0;
  size_t end = kept_.size();
  while (end - begin > 1) {
    const size_t middle = begin + (end - begin) / 2;
    std::nth_element(kept_.begin() + begin, kept_.begin() + middle, kept_.begin() + end, IsBetter);
    const double left = SumOfWeights(begin, middle);
    if (left >= mass) {
      end = middle;
    } else {
      mass -= left;
      begin = middle;
    }
  }
  return end;
}

void Candidates::Filter(std::span<const float> logits, float max, float temperature, int32_t top_k,
                        float top_p, float min_p) {
  double total = 0;
  if (top_k > 0) {
    SelectBest(logits, std::min<int64_t>(top_k, logits.size()), &kept_);
  } else {
    HYDRANT_CHECK(top_p < 1);
    total = SelectForTopP(logits, max, temperature, top_p);
  }
  for (Candidate& c : kept_) c.weight = Weight(c.logit, max, temperature);
  if (top_p < 1 && !kept_.empty()) {
    if (top_k > 0) total = SumOfWeights(0, kept_.size());
    kept_.resize(PrefixReaching(top_p * total));
  }
  // A weight that is 0 in f32 could only be drawn by a rounding error.
  std::erase_if(kept_, [&](const Candidate& c) { return c.weight < min_p || c.weight == 0.0f; });
}

int32_t Candidates::Draw(double u) {
  HYDRANT_CHECK(!kept_.empty());
  return kept_[PrefixReaching(u * SumOfWeights(0, kept_.size())) - 1].id;
}

}  // namespace hydrant::engine
