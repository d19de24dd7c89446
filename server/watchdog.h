// Tells a step of the engine that will not end from one that only takes its time.

#ifndef HYDRANT_SERVER_WATCHDOG_H_
#define HYDRANT_SERVER_WATCHDOG_H_

#include <chrono>
#include <cstdint>

#include "engine/engine.h"

namespace hydrant::server {

// Looks at the engine whenever it is asked to; has no thread of its own.
class Watchdog {
 public:
  using Clock = std::chrono::steady_clock;
  // Between two looks no more than this counts: while the whole process stood still (a stopped
  // container, a suspended machine), the step could not end either.
  static constexpr std::chrono::seconds kLongestGap{1};

  // 0: no step is ever too long.
  explicit Watchdog(std::chrono::duration<double> step_timeout) : step_timeout_(step_timeout) {}

  // True once one step has been under way for the timeout. Asked a few times a second.
  bool Stuck(const engine::LoadStats& load, Clock::time_point now);

 private:
  const std::chrono::duration<double> step_timeout_;
  int64_t step_ = -1;  // the one under way at the last look; -1: none
  Clock::time_point last_look_;
  std::chrono::duration<double> seen_{0};
};

}  // namespace hydrant::server

#endif  // HYDRANT_SERVER_WATCHDOG_H_
