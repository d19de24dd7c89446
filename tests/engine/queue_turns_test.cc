#include "engine/queue_turns.h"

#include <gtest/gtest.h>

namespace hydrant::engine {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class QueueTurnsTest : public testing::Test {
 protected:
  // `places` come free, each `apart` after the last, while three wait.
  void Pass(int places, milliseconds apart) {
    turns_.Observe(0, 3, now_);
    for (int i = 0; i < places; ++i) {
      now_ += apart;
      turns_.Observe(1, 3, now_);
    }
  }
  QueueTurns turns_;
  QueueTurns::TimePoint now_{seconds(1000)};
};

TEST_F(QueueTurnsTest, AssumesASecondAPlaceUntilItHasSeenSome) {
  EXPECT_EQ(turns_.Next(now_), seconds(1));
}

TEST_F(QueueTurnsTest, EveryoneHasAPlaceOfTheirOwn) {
  Pass(100, milliseconds(250));
  EXPECT_NEAR(turns_.Next(now_).count(), 250, 1);
  EXPECT_NEAR(turns_.Next(now_).count(), 500, 1);
  EXPECT_NEAR(turns_.Next(now_ + milliseconds(200)).count(), 550, 1);
}

TEST_F(QueueTurnsTest, FollowsThePace) {
  Pass(100, milliseconds(250));
  Pass(100, milliseconds(2000));
  EXPECT_NEAR(turns_.Next(now_).count(), 2000, 1);
}

TEST_F(QueueTurnsTest, PlacesThatComeFreeTogetherShareTheTime) {
  turns_.Observe(0, 9, now_);
  for (int i = 0; i < 100; ++i) turns_.Observe(4, 9, now_ += seconds(2));
  EXPECT_NEAR(turns_.Next(now_).count(), 500, 1);
}

TEST_F(QueueTurnsTest, AnEmptyQueueOwesNothingAndItsTimeDoesNotCount) {
  Pass(100, milliseconds(250));
  for (int i = 0; i < 20; ++i) turns_.Next(now_);
  turns_.Observe(3, 0, now_ += milliseconds(750));
  now_ += seconds(3600);
  EXPECT_NEAR(turns_.Next(now_).count(), 250, 1);
  Pass(1, milliseconds(250));
  EXPECT_NEAR(turns_.Next(now_).count(), 250, 1);
}

TEST_F(QueueTurnsTest, IsBoundedOnBothSides) {
  Pass(100, milliseconds(1));
  EXPECT_EQ(turns_.Next(now_), QueueTurns::kShortest);
  Pass(100, seconds(50));
  EXPECT_NEAR(turns_.Next(now_).count(), 50'000, 1);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(turns_.Next(now_), QueueTurns::kLongest);
}

}  // namespace
}  // namespace hydrant::engine
