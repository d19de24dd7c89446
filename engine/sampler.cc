#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "engine/philox.h"
#include "kernels/candidates.h"
#include "kernels/check.h"
#include "kernels/softmax.h"

namespace hydrant::engine {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNone = -kInfinity;

}  // namespace

Sampler::Sampler(AppliedSampling params, int32_t vocab_size, std::span<const int32_t> prompt)
    : params_(std::move(params)), vocab_size_(vocab_size) {
  if (has_penalties()) {
    // Room for every token (untouched pages cost nothing), so that no step allocates.
    changes_.reserve(vocab_size_);
    counts_.reserve(vocab_size_);
    with_bans_.reserve(vocab_size_);
  }
  // In order of ids, so that each is put at the end.
  std::vector<int32_t> ids;
  for (const auto& [id, bias] : params_.logit_bias) ids.push_back(id);
  if (has_penalties()) ids.insert(ids.end(), prompt.begin(), prompt.end());
  std::sort(ids.begin(), ids.end());
  for (const int32_t id : ids) {
    if (id >= 0 && id < vocab_size_) PlaceOf(id);
  }
  for (const auto& [id, bias] : params_.logit_bias) {
    if (id >= 0 && id < vocab_size_) changes_[PlaceOf(id)].bias += bias;
  }
  if (params_.repetition_penalty == 1) return;
  for (const int32_t id : prompt) {
    if (id >= 0 && id < vocab_size_) changes_[PlaceOf(id)].penalty = params_.repetition_penalty;
  }
}

bool Sampler::has_penalties() const {
  return params_.repetition_penalty != 1 || params_.presence_penalty != 0 ||
         params_.frequency_penalty != 0;
}

size_t Sampler::PlaceOf(int32_t id) {
  const auto place =
      std::lower_bound(changes_.begin(), changes_.end(), id,
                       [](const kernels::LogitChange& change, int32_t i) { return change.id < i; });
  const size_t at = place - changes_.begin();
  if (place == changes_.end() || place->id != id) {
    changes_.insert(place, {.id = id});
    counts_.insert(counts_.begin() + at, 0);
  }
  return at;
}

void Sampler::Record(int32_t token) {
  ++num_sampled_;
  if (!has_penalties()) return;
  const size_t at = PlaceOf(token);
  changes_[at].penalty = params_.repetition_penalty;
  changes_[at].subtrahend =
      params_.presence_penalty + params_.frequency_penalty * static_cast<float>(++counts_[at]);
}

kernels::TokenDraw Sampler::Next(std::span<const int32_t> banned) {
  kernels::TokenDraw draw;
  draw.changes = changes_;
  if (!banned.empty()) {
    with_bans_ = changes_;
    for (const int32_t id : banned) {
      if (id < 0 || id >= vocab_size_) continue;
      const auto place =
          std::find_if(with_bans_.begin(), with_bans_.end(),
                       [&](const kernels::LogitChange& change) { return change.id == id; });
      kernels::LogitChange& change = place == with_bans_.end() ? with_bans_.emplace_back() : *place;
      change.id = id;
      change.subtrahend = kInfinity;
    }
    draw.changes = with_bans_;
  }
  draw.temperature = params_.temperature;
  draw.top_k = params_.top_k;
  draw.top_p = params_.top_p;
  draw.min_p = params_.min_p;
  if (params_.temperature > 0) draw.u = UniformAt(params_.seed, num_sampled_);
  return draw;
}

TokenLogprobs ComputeLogprobs(std::span<const float> logits, int32_t token_id, int32_t top) {
  HYDRANT_CHECK(token_id >= 0 && static_cast<size_t>(token_id) < logits.size());
  TokenLogprobs result;
  result.token_id = token_id;
  const float max = kernels::MaxLogit(logits);
  if (max == kNone) {
    result.logprob = kNone;
    return result;
  }
  const float one = kernels::MassOfOne(static_cast<int64_t>(logits.size()));
  const double log_sum = std::log(kernels::SumMasses({logits, max, 1.0f, 0.0f, one}) / one);
  const auto logprob = [&](float logit) {
    if (logit == max) return static_cast<float>(-log_sum);
    if (std::isnan(logit)) return kNone;
    return static_cast<float>(double{logit} - max - log_sum);
  };
  result.logprob = logprob(logits[token_id]);
  std::vector<kernels::Candidate> best;
  kernels::SelectBest(logits, std::min<int64_t>(top, logits.size()), &best);
  std::sort(best.begin(), best.end(), kernels::IsBetter);
  result.top.reserve(best.size());
  for (const kernels::Candidate& c : best) result.top.push_back({c.id, logprob(c.logit), {}});
  return result;
}

}  // namespace hydrant::engine
