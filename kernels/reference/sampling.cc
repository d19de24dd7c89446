// Choosing tokens, word for word as sampling.h says it.

#include "kernels/sampling.h"

#include <algorithm>
#include <limits>

#include "kernels/reference/reference_backend.h"
#include "kernels/shapes.h"

namespace hydrant::kernels {

int32_t ReferenceBackend::SampleRow(const float* logits, int64_t vocabulary,
                                    const TokenDraw& draw) {
  sampled_row_.assign(logits, logits + vocabulary);
  for (const LogitChange& change : draw.changes) {
    sampled_row_[change.id] = Changed(change, sampled_row_[change.id]);
  }
  choices_.clear();
  for (int32_t id = 0; id < vocabulary; ++id) {
    if (sampled_row_[id] > -std::numeric_limits<float>::infinity()) choices_.push_back({id});
  }
  if (choices_.empty()) return -1;
  std::sort(choices_.begin(), choices_.end(), [&](const Choice& a, const Choice& b) {
    const float x = sampled_row_[a.id], y = sampled_row_[b.id];
    return x != y ? x > y : a.id < b.id;
  });
  if (draw.temperature == 0.0f) return choices_[0].id;

  const float max = sampled_row_[choices_[0].id];
  for (Choice& choice : choices_) {
    choice.weight = Weight(sampled_row_[choice.id], max, draw.temperature);
    choice.mass = MassOf(choice.weight, MassOfOne(vocabulary));
  }
  const auto mass = [&] {
    double sum = 0.0;
    for (const Choice& choice : choices_) sum += choice.mass;
    return sum;
  };
  if (draw.top_k > 0 && choices_.size() > static_cast<size_t>(draw.top_k)) {
    choices_.resize(draw.top_k);
  }
  if (draw.top_p < 1.0f) {
    const double wanted = MassForTopP(draw.top_p, mass());
    double sum = 0.0;
    size_t kept = 0;
    while (sum < wanted) sum += choices_[kept++].mass;
    choices_.resize(kept);
  }
  std::erase_if(choices_, [&](const Choice& choice) { return choice.weight < draw.min_p; });

  std::sort(choices_.begin(), choices_.end(),
            [](const Choice& a, const Choice& b) { return a.id < b.id; });
  const double wanted = MassForDraw(draw.u, mass());
  double sum = 0.0;
  size_t chosen = 0;
  while ((sum += choices_[chosen].mass) < wanted) ++chosen;
  return choices_[chosen].id;
}

void ReferenceBackend::Sample(Matrix logits, std::span<const TokenDraw> draws,
                              std::span<int32_t> tokens) {
  CheckDraws(logits, draws, tokens);
  for (size_t i = 0; i < draws.size(); ++i) {
    tokens[i] = SampleRow(logits.f32() + draws[i].row * logits.cols, logits.cols, draws[i]);
  }
}

}  // namespace hydrant::kernels
