#include "server/watchdog.h"

#include <algorithm>
#include <utility>

namespace hydrant::server {

bool Watchdog::Stuck(const engine::LoadStats& load, Clock::time_point now) {
  const int64_t step = load.in_step ? load.steps_begun : -1;
  const Clock::duration gap = now - std::exchange(last_look_, now);
  if (step < 0 || step != step_) {
    step_ = step;
    seen_ = seen_.zero();
    return false;
  }
  seen_ += std::min<Clock::duration>(gap, kLongestGap);
  return step_timeout_.count() > 0 && seen_ >= step_timeout_;
}

}  // namespace hydrant::server
