#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "engine/philox.h"
#include "engine/softmax.h"
#include "kernels/check.h"

namespace hydrant::engine {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

}  // namespace

Sampler::Sampler(AppliedSampling params, int32_t vocab_size, std::span<const int32_t> prompt)
    : params_(std::move(params)), vocab_size_(vocab_size) {
  std::erase_if(params_.logit_bias,
                [&](const auto& bias) { return bias.first < 0 || bias.first >= vocab_size_; });
  if (!has_penalties()) return;
  // Room for every token (untouched pages cost nothing), so that Sample never allocates.
  seen_.reserve(vocab_size_);
  std::vector<int32_t> ids(prompt.begin(), prompt.end());
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  for (int32_t id : ids) {
    if (id >= 0 && id < vocab_size_) seen_.push_back({id, 0});
  }
}

bool Sampler::has_penalties() const {
  return params_.repetition_penalty != 1 || params_.presence_penalty != 0 ||
         params_.frequency_penalty != 0;
}

bool Sampler::is_plain_greedy() const {
  return params_.temperature == 0 && !has_penalties() && params_.logit_bias.empty();
}

void Sampler::Record(int32_t token) {
  ++num_sampled_;
  if (!has_penalties()) return;
  const auto place = std::lower_bound(seen_.begin(), seen_.end(), token,
                                      [](const SeenToken& s, int32_t id) { return s.id < id; });
  if (place != seen_.end() && place->id == token) {
    ++place->count;
  } else {
    seen_.insert(place, {token, 1});
  }
}

std::optional<int32_t> Sampler::Sample(std::span<float> logits, std::span<const int32_t> banned) {
  HYDRANT_CHECK(logits.size() == static_cast<size_t>(vocab_size_));
  for (const auto& [id, bias] : params_.logit_bias) logits[id] += bias;
  for (const SeenToken& seen : seen_) {
    float& logit = logits[seen.id];
    // CTRL (Keskar et al. 2019), as everybody reads it: towards the less likely on either side of
    // 0.
    logit = logit > 0 ? logit / params_.repetition_penalty : logit * params_.repetition_penalty;
    if (seen.count > 0) {
      logit -=
          params_.presence_penalty + params_.frequency_penalty * static_cast<float>(seen.count);
    }
  }
  for (int32_t id : banned) {
    if (id >= 0 && id < vocab_size_) logits[id] = kNone;
  }

  int32_t token = -1;
  if (params_.temperature == 0) {
    token = ArgMax(logits);
  } else if (const float max = MaxLogit(logits); max > kNone) {
    const double u = UniformAt(params_.seed, num_sampled_);
    if (params_.top_k > 0 || params_.top_p < 1) {
      candidates_.Filter(logits, max, params_.temperature, params_.top_k, params_.top_p,
                         params_.min_p);
      token = candidates_.Draw(u);
    } else {
      token = DrawByWeight(logits, max, params_.temperature, params_.min_p, u);
    }
  }
  if (token < 0) return std::nullopt;
  Record(token);
  return token;
}

TokenLogprobs ComputeLogprobs(std::span<const float> logits, int32_t token_id, int32_t top) {
  HYDRANT_CHECK(token_id >= 0 && static_cast<size_t>(token_id) < logits.size());
  TokenLogprobs result;
  result.token_id = token_id;
  const float max = MaxLogit(logits);
  if (max == kNone) {
    result.logprob = kNone;
    return result;
  }
  const double log_sum = std::log(SumWeights(logits, max, 1.0f, 0.0f));
  const auto logprob = [&](float logit) {
    if (logit == max) return static_cast<float>(-log_sum);
    if (std::isnan(logit)) return kNone;
    return static_cast<float>(double{logit} - max - log_sum);
  };
  result.logprob = logprob(logits[token_id]);
  std::vector<Candidate> best;
  SelectBest(logits, std::min<int64_t>(top, logits.size()), &best);
  std::sort(best.begin(), best.end(), IsBetter);
  result.top.reserve(best.size());
  for (const Candidate& c : best) result.top.push_back({c.id, logprob(c.logit), {}});
  return result;
}

}  // namespace hydrant::engine
