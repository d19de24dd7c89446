#include "server/watchdog.h"

#include <gtest/gtest.h>

namespace hydrant::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

engine::LoadStats InStep(int64_t step) {
  engine::LoadStats load;
  load.steps_begun = step;
  load.in_step = true;
  return load;
}

TEST(WatchdogTest, OneStepForTheWholeTimeoutIsStuck) {
  Watchdog watchdog(seconds(2));
  Watchdog::Clock::time_point now;
  EXPECT_FALSE(watchdog.Stuck(InStep(7), now));
  for (int i = 0; i < 19; ++i) EXPECT_FALSE(watchdog.Stuck(InStep(7), now += milliseconds(100)));
  EXPECT_TRUE(watchdog.Stuck(InStep(7), now += milliseconds(100)));
}

TEST(WatchdogTest, StepsThatFollowEachOtherAreNot) {
  Watchdog watchdog(seconds(2));
  Watchdog::Clock::time_point now;
  for (int64_t step = 0; step < 100; ++step) {
    EXPECT_FALSE(watchdog.Stuck(InStep(step / 15), now += milliseconds(100)));
  }
}

TEST(WatchdogTest, AnIdleEngineIsNot) {
  Watchdog watchdog(seconds(2));
  Watchdog::Clock::time_point now;
  engine::LoadStats idle = InStep(7);
  idle.in_step = false;
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(watchdog.Stuck(idle, now += milliseconds(100)));
  // Nor does the time before a step count for it.
  EXPECT_FALSE(watchdog.Stuck(InStep(8), now += milliseconds(100)));
}

TEST(WatchdogTest, TimeInWhichTheProcessStoodStillIsNotTheSteps) {
  Watchdog watchdog(seconds(2));
  Watchdog::Clock::time_point now;
  EXPECT_FALSE(watchdog.Stuck(InStep(7), now));
  EXPECT_FALSE(watchdog.Stuck(InStep(7), now += std::chrono::hours(5)));
  EXPECT_TRUE(watchdog.Stuck(InStep(7), now += seconds(1)));
}

TEST(WatchdogTest, WithoutATimeoutNothingIs) {
  Watchdog watchdog(seconds(0));
  Watchdog::Clock::time_point now;
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(watchdog.Stuck(InStep(7), now += seconds(1)));
}

}  // namespace
}  // namespace hydrant::server
