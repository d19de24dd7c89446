#include "kernels/cpu/sampling.h"

#include <algorithm>
#include <limits>

#include "kernels/shapes.h"
#include "kernels/softmax.h"

namespace hydrant::kernels::cpu {
namespace {

// Logits that one thread goes through in a few microseconds.
constexpr int64_t kPiece = 65536;
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

bool NeedsCandidates(const TokenDraw& draw) {
  return draw.temperature > 0.0f && (draw.top_k > 0 || draw.top_p < 1.0f);
}

}  // namespace

int32_t SampleRunner::Choose(std::span<const float> logits, std::span<const float> maxima,
                             const TokenDraw& draw, Scratch& scratch) const {
  const float max = *std::max_element(maxima.begin(), maxima.end());
  if (max == kMinusInfinity) return -1;
  if (draw.temperature == 0.0f) {
    const size_t piece = std::find(maxima.begin(), maxima.end(), max) - maxima.begin();
    const size_t begin = piece * kPiece;
    return static_cast<int32_t>(begin) + FirstEqual(logits.subspan(begin), max);
  }
  if (NeedsCandidates(draw)) {
    scratch.candidates.Filter(logits, max, draw);
    return scratch.candidates.Draw(draw.u);
  }
  const Weighed weighed{logits, max, draw.temperature, draw.min_p,
                        MassOfOne(static_cast<int64_t>(logits.size()))};
  const double mass = SumMasses(weighed, &scratch.sums_of_blocks);
  return ReachMass(weighed, scratch.sums_of_blocks, MassForDraw(draw.u, mass));
}

void SampleRunner::Run(Matrix logits, std::span<const TokenDraw> draws, std::span<int32_t> tokens) {
  CheckDraws(logits, draws, tokens);
  const auto count = static_cast<int64_t>(draws.size());
  const auto row_of = [&](const TokenDraw& draw) {
    return std::span(logits.f32() + draw.row * logits.cols, static_cast<size_t>(logits.cols));
  };
  if (std::any_of(draws.begin(), draws.end(), NeedsCandidates)) {
    for (Scratch& scratch : scratch_) scratch.candidates.Reserve(logits.cols);
  }
  first_replaced_.assign(1, 0);
  for (const TokenDraw& draw : draws) {
    first_replaced_.push_back(first_replaced_.back() + draw.changes.size());
  }
  replaced_.resize(first_replaced_.back());
  if (!replaced_.empty()) {
    pool_.ForEach(count, 1, [&](int64_t i, int) {
      float* replaced = replaced_.data() + first_replaced_[i];
      for (const LogitChange& change : draws[i].changes) {
        float& logit = row_of(draws[i])[change.id];
        *replaced++ = logit;
        logit = Changed(change, logit);
      }
    });
  }
  const int64_t pieces = (logits.cols + kPiece - 1) / kPiece;
  maxima_.resize(count * pieces);
  pool_.ForEach(count * pieces, 1, [&](int64_t i, int) {
    const int64_t begin = i % pieces * kPiece;
    maxima_[i] =
        MaxLogit(row_of(draws[i / pieces]).subspan(begin, std::min(kPiece, logits.cols - begin)));
  });
  pool_.ForEach(count, 1, [&](int64_t i, int member) {
    const std::span<float> row = row_of(draws[i]);
    tokens[i] =
        Choose(row, std::span(maxima_).subspan(i * pieces, pieces), draws[i], scratch_[member]);
    const float* replaced = replaced_.data() + first_replaced_[i];
    for (const LogitChange& change : draws[i].changes) row[change.id] = *replaced++;
  });
}

}  // namespace hydrant::kernels::cpu
