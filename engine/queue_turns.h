// When those who found the queue full may come back: each is told of a place of its own, so that
// they come at the pace at which places come free, and not all at once.

#ifndef HYDRANT_ENGINE_QUEUE_TURNS_H_
#define HYDRANT_ENGINE_QUEUE_TURNS_H_

#include <chrono>
#include <cstdint>
#include <optional>

namespace hydrant::engine {

// Not thread-safe.
class QueueTurns {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  static constexpr std::chrono::milliseconds kShortest{100};
  static constexpr std::chrono::milliseconds kLongest{60'000};

  // At `now`, `started` requests left the queue and `waiting` remain in it. An empty queue keeps
  // nobody out: what was promised is forgotten.
  void Observe(int32_t started, int32_t waiting, TimePoint now);

  // How long after `now` the next place comes free that nobody was told of yet; whoever asks has
  // it. Within [kShortest, kLongest]. Until places have come free, a second each is assumed.
  std::chrono::milliseconds Next(TimePoint now);

 private:
  double place_seconds_ = 1;        // between two places; smoothed
  std::optional<TimePoint> since_;  // last place, while somebody waited from then on
  TimePoint promised_;              // the last place that somebody was told of
};

}  // namespace hydrant::engine

#endif  // HYDRANT_ENGINE_QUEUE_TURNS_H_
