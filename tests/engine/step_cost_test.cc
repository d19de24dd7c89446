#include "engine/step_cost.h"

#include <gtest/gtest.h>

namespace hydrant::engine {
namespace {

TEST(StepCostTest, GuessesUntilBothKindsWereSeen) {
  StepCost cost;
  const int32_t guess = cost.DecodeWorth();
  EXPECT_GT(guess, 0);
  cost.Observe(0, 512, 0.5);
  EXPECT_EQ(cost.DecodeWorth(), guess);
  cost.Observe(4, 0, 0.02);
  EXPECT_EQ(cost.DecodeWorth(), 10);
}

TEST(StepCostTest, FollowsWhatStepsCost) {
  // Prompt tokens of 1 ms, later 2 ms (a longer context), beside decodes of 20 ms.
  StepCost cost;
  cost.Observe(16, 0, 0.02);
  for (int i = 0; i < 40; ++i) cost.Observe(16, 40, 0.02 + 40 * 0.001);
  EXPECT_NEAR(cost.DecodeWorth(), 20, 1);
  for (int i = 0; i < 40; ++i) {
    cost.Observe(16, 0, 0.02);
    cost.Observe(16, 40, 0.02 + 40 * 0.002);
  }
  EXPECT_NEAR(cost.DecodeWorth(), 10, 2);
}

TEST(StepCostTest, OneDisturbedStepChangesLittle) {
  StepCost cost;
  for (int i = 0; i < 20; ++i) {
    cost.Observe(8, 0, 0.01);
    cost.Observe(8, 20, 0.03);
  }
  const int32_t before = cost.DecodeWorth();
  cost.Observe(8, 0, 1.0);
  EXPECT_LT(cost.DecodeWorth(), 2 * before);
}

TEST(StepCostTest, TimesOfZeroDoNoHarm) {
  StepCost cost;
  cost.Observe(1, 0, 0);
  cost.Observe(1, 5, 0);
  EXPECT_GE(cost.DecodeWorth(), 1);
  cost.Observe(1, 0, 0.01);
  cost.Observe(1, 5, 0.02);
  EXPECT_GE(cost.DecodeWorth(), 1);
}

}  // namespace
}  // namespace hydrant::engine
