#include "kernels/candidates.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/check.h"
#include "kernels/softmax.h"

namespace hydrant::kernels {
namespace {

// Blocks without a candidate are passed over as a whole.
constexpr size_t kBlock = 64;
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// Calls visit(id, logit) for the logits above a threshold, which `visit` returns anew.
template <typename Visit>
void ForEachAbove(std::span<const float> logits, float threshold, Visit&& visit) {
  for (size_t begin = 0; begin < logits.size(); begin += kBlock) {
    const size_t end = std::min(begin + kBlock, logits.size());
    if (!AnyAbove(logits.subspan(begin, end - begin), threshold)) continue;
    for (size_t i = begin; i < end; ++i) {
      if (logits[i] > threshold) threshold = visit(static_cast<int32_t>(i), logits[i]);
    }
  }
}

double SumOfMasses(std::span<const Candidate> candidates) {
  double sum = 0;
  for (const Candidate& c : candidates) sum += c.mass;
  return sum;
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
  float threshold = kMinusInfinity;
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

double Candidates::SelectForTopP(std::span<const float> logits, float max, const TokenDraw& draw,
                                 float mass_of_one) {
  // A token of less than (1 - p) / n of the whole mass is not in the prefix: it and those after it,
  // n at the most, would have less than 1 - p together. The margins cover rounding, of masses by up
  // to a half.
  const double total = SumMasses({logits, max, draw.temperature, 0.0f, mass_of_one});
  const double lightest =
      ((1.0 - draw.top_p) * total / static_cast<double>(logits.size()) - 1.0) / mass_of_one;
  float threshold = kMinusInfinity;
  if (lightest > 0) {
    threshold = static_cast<float>(max + draw.temperature * (std::log(lightest) - 0.001)) -
                1e-6f * std::abs(max);
    if (!(threshold < max)) threshold = std::nextafter(max, kMinusInfinity);
  }
  kept_.clear();
  kept_.reserve(logits.size());
  ForEachAbove(logits, threshold, [&](int32_t id, float logit) {
    kept_.push_back({logit, id, 0.0f});
    return threshold;
  });
  return total;
}

// Weighted quickselect: linear expected time.
void Candidates::KeepBest(double mass) {
  selected_ = kept_;
  auto begin = selected_.begin(), end = selected_.end();
  while (end - begin > 1) {
    const auto middle = begin + (end - begin) / 2;
    std::nth_element(begin, middle, end, IsBetter);
    const double left = SumOfMasses({begin, middle});
    if (left >= mass) {
      end = middle;
    } else {
      mass -= left;
      begin = middle;
    }
  }
  const Candidate last = *begin;
  std::erase_if(kept_, [&](const Candidate& c) { return IsBetter(last, c); });
}

void Candidates::Reserve(int64_t vocabulary) {
  kept_.reserve(vocabulary);
  selected_.reserve(vocabulary);
}

void Candidates::Filter(std::span<const float> logits, float max, const TokenDraw& draw) {
  const float mass_of_one = MassOfOne(static_cast<int64_t>(logits.size()));
  double total = 0;
  if (draw.top_k > 0) {
    SelectBest(logits, std::min<int64_t>(draw.top_k, logits.size()), &kept_);
    std::sort(kept_.begin(), kept_.end(),
              [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
  } else {
    HYDRANT_CHECK(draw.top_p < 1);
    total = SelectForTopP(logits, max, draw, mass_of_one);
  }
  for (Candidate& c : kept_) c.mass = MassOf(Weight(c.logit, max, draw.temperature), mass_of_one);
  if (draw.top_p < 1) {
    if (draw.top_k > 0) total = SumOfMasses(kept_);
    KeepBest(MassForTopP(draw.top_p, total));
  }
  if (draw.min_p > 0) {
    std::erase_if(kept_, [&](const Candidate& c) {
      return Weight(c.logit, max, draw.temperature) < draw.min_p;
    });
  }
}

int32_t Candidates::Draw(double u) const {
  double left = MassForDraw(u, SumOfMasses(kept_));
  for (const Candidate& c : kept_) {
    left -= c.mass;
    if (left <= 0) return c.id;
  }
  HYDRANT_CHECK(false);
}

}  // namespace hydrant::kernels
