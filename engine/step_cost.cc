#include "engine/step_cost.h"

#include <algorithm>

namespace hydrant::engine {
namespace {

constexpr double kWeight = 0.25;       // of the newest step
constexpr double kSlowWeight = 0.02;   // on decode_seconds_, of a step that has prompt tokens too
constexpr double kMostSurprise = 4;    // a step that was held up by something else says little
constexpr double kSmallChunkCost = 2;  // of a token beside decodes: times that in a step of its own
constexpr int32_t kGuess = 64;         // prompt tokens
constexpr int32_t kMost = 1 << 20;

void Follow(double measured, double weight, double* known) {
  if (*known <= 0) {
    *known = measured;
    return;
  }
  const double likely = std::clamp(measured, *known / kMostSurprise, *known * kMostSurprise);
  *known += weight * (likely - *known);
}

}  // namespace

void StepCost::Observe(int32_t decodes, int32_t prompt_tokens, double seconds) {
  if (prompt_tokens == 0) return Follow(seconds, kWeight, &decode_seconds_);
  if (decodes == 0) return Follow(seconds / prompt_tokens, kWeight, &alone_seconds_);
  if (token_seconds_ <= 0) token_seconds_ = kSmallChunkCost * alone_seconds_;
  // Where prompts never cease there are no steps of decodes alone: then both are corrected, slowly.
  const double known = decode_seconds_;
  Follow(seconds - token_seconds_ * prompt_tokens, known > 0 ? kSlowWeight : 1, &decode_seconds_);
  Follow(std::max(0.0, seconds - known) / prompt_tokens, kWeight, &token_seconds_);
}

int32_t StepCost::DecodeWorth() const {
  const double token_seconds =
      token_seconds_ > 0 ? token_seconds_ : kSmallChunkCost * alone_seconds_;
  if (decode_seconds_ <= 0 || token_seconds <= 0) return kGuess;
  return static_cast<int32_t>(
      std::clamp(decode_seconds_ / token_seconds, 1.0, static_cast<double>(kMost)));
}

}  // namespace hydrant::engine
