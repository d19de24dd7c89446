#include "engine/queue_turns.h"

#include <algorithm>

namespace hydrant::engine {
namespace {

// Weight of a new observation: some ten places are remembered.
constexpr double kSmoothing = 0.2;

}  // namespace

void QueueTurns::Observe(int32_t started, int32_t waiting, TimePoint now) {
  if (since_ && started > 0) {
    const double seconds = std::chrono::duration<double>(now - *since_).count() / started;
    place_seconds_ += kSmoothing * (seconds - place_seconds_);
  }
  if (waiting == 0) {
    since_ = std::nullopt;
    promised_ = TimePoint();
  } else if (!since_ || started > 0) {
    since_ = now;
  }
}

std::chrono::milliseconds QueueTurns::Next(TimePoint now) {
  const auto place = std::chrono::duration_cast<TimePoint::duration>(
      std::chrono::duration<double>(place_seconds_));
  promised_ = std::min<TimePoint>(std::max(promised_, now) + place, now + kLongest);
  return std::max(kShortest, std::chrono::ceil<std::chrono::milliseconds>(promised_ - now));
}

}  // namespace hydrant::engine
