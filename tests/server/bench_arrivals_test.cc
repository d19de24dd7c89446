#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "server/bench/arrivals.h"

namespace hydrant::server::bench {
namespace {

std::vector<double> TimesOf(Arrivals& arrivals, int count) {
  std::vector<double> times;
  for (int i = 0; i < count && arrivals.Next(); ++i) {
    times.push_back(*arrivals.Next());
    arrivals.Take();
  }
  return times;
}

int TakeDue(Arrivals& arrivals, double now) {
  int count = 0;
  for (; arrivals.Next() && *arrivals.Next() <= now; ++count) arrivals.Take();
  return count;
}

TEST(MakeStepsTest, GoesEvenlyFromTheFirstToTheLastLevel) {
  const auto steps = MakeSteps(1, 7, 4, 20);
  ASSERT_EQ(steps.size(), 4);
  const double begins[] = {0, 5, 10, 15}, levels[] = {1, 3, 5, 7};
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(steps[i].begin, begins[i]);
    EXPECT_EQ(steps[i].level, levels[i]);
  }
  EXPECT_EQ(StepAt(steps, 0), 0);
  EXPECT_EQ(StepAt(steps, 4.99), 0);
  EXPECT_EQ(StepAt(steps, 5), 1);
  EXPECT_EQ(StepAt(steps, 1000), 3);
  EXPECT_EQ(MakeSteps(3, 3, 1, 0)[0].level, 3);
}

TEST(PoissonArrivalsTest, IsAFunctionOfTheSeed) {
  const auto steps = MakeSteps(5, 5, 1, 0);
  const auto times = TimesOf(*PoissonArrivals(steps, 1), 100);
  EXPECT_EQ(times, TimesOf(*PoissonArrivals(steps, 1), 100));
  EXPECT_NE(times, TimesOf(*PoissonArrivals(steps, 2), 100));
}

TEST(PoissonArrivalsTest, HasTheRateAndTheSpreadOfAPoissonProcess) {
  constexpr int kCount = 100'000;
  const auto times = TimesOf(*PoissonArrivals(MakeSteps(20, 20, 1, 0), 7), kCount);
  ASSERT_EQ(times.size(), kCount);
  double squares = 0, before = 0;
  for (const double time : times) {
    ASSERT_GT(time, before);
    squares += (time - before) * (time - before);
    before = time;
  }
  // Gaps of an exponential distribution: mean 1/20, mean square 2/400; 5 standard errors.
  EXPECT_NEAR(before / kCount, 0.05, 5 * 0.05 / std::sqrt(kCount));
  EXPECT_NEAR(squares / kCount, 0.005, 5 * 0.005 * std::sqrt(5.0 / kCount));
}

TEST(PoissonArrivalsTest, DoesNotWaitForAnswers) {
  const auto steps = MakeSteps(50, 50, 1, 0);
  const auto answered = PoissonArrivals(steps, 3), unanswered = PoissonArrivals(steps, 3);
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(answered->Next(), unanswered->Next());
    answered->Take();
    answered->Ended(i, i % 2 == 0);
    unanswered->Take();
  }
}

TEST(PoissonArrivalsTest, RampsFromStepToStep) {
  const auto arrivals = PoissonArrivals(MakeSteps(10, 1000, 3, 30), 5);
  int counts[3] = {};
  for (double time; (time = *arrivals->Next()) < 30; arrivals->Take()) {
    ++counts[static_cast<int>(time / 10)];
  }
  // 100, 5050 and 10,000 expected; 5 standard deviations.
  EXPECT_NEAR(counts[0], 100, 50);
  EXPECT_NEAR(counts[1], 5050, 5 * std::sqrt(5050));
  EXPECT_NEAR(counts[2], 10'000, 500);
}

TEST(GivenArrivalsTest, EndsAfterTheLast) {
  const auto arrivals = GivenArrivals({0.5, 0.5, 2});
  EXPECT_EQ(TimesOf(*arrivals, 10), (std::vector<double>{0.5, 0.5, 2}));
  EXPECT_EQ(arrivals->Next(), std::nullopt);
}

TEST(ClosedArrivalsTest, FollowsEachRequestWithTheNext) {
  const auto arrivals = ClosedArrivals(MakeSteps(3, 3, 1, 0));
  EXPECT_EQ(TakeDue(*arrivals, 0), 3);
  EXPECT_EQ(arrivals->Next(), std::nullopt);
  arrivals->Ended(1.25, true);
  EXPECT_EQ(arrivals->Next(), 1.25);  // due when the place came free
  EXPECT_EQ(TakeDue(*arrivals, 1.25), 1);
  EXPECT_EQ(arrivals->Next(), std::nullopt);
}

TEST(ClosedArrivalsTest, WaitsAfterARefusal) {
  const auto arrivals = ClosedArrivals(MakeSteps(1, 1, 1, 0));
  EXPECT_EQ(TakeDue(*arrivals, 0), 1);
  arrivals->Ended(2, false);
  EXPECT_EQ(arrivals->Next(), 2 + kRetryDelay);
}

TEST(ClosedArrivalsTest, RisesWithTheSteps) {
  const auto arrivals = ClosedArrivals(MakeSteps(1, 3, 3, 30));
  EXPECT_EQ(TakeDue(*arrivals, 9.9), 1);
  arrivals->Ended(9.9, true);
  EXPECT_EQ(TakeDue(*arrivals, 9.9), 1);
  EXPECT_EQ(TakeDue(*arrivals, 10), 1);
  EXPECT_EQ(TakeDue(*arrivals, 20), 1);
  arrivals->Ended(25, true);
  EXPECT_EQ(TakeDue(*arrivals, 25), 1);
  EXPECT_EQ(TakeDue(*arrivals, 1000), 0);
}

TEST(ClosedArrivalsTest, FallsAsRequestsEnd) {
  const auto arrivals = ClosedArrivals(MakeSteps(3, 1, 3, 30));
  EXPECT_EQ(TakeDue(*arrivals, 0), 3);
  arrivals->Ended(9, true);
  EXPECT_EQ(TakeDue(*arrivals, 9), 1);  // still the first step
  arrivals->Ended(11, true);
  EXPECT_EQ(TakeDue(*arrivals, 11), 0);  // two are open, and two may be
  arrivals->Ended(12, true);
  EXPECT_EQ(TakeDue(*arrivals, 12), 1);
  arrivals->Ended(20, true);
  EXPECT_EQ(TakeDue(*arrivals, 20), 0);
  arrivals->Ended(21, true);
  EXPECT_EQ(TakeDue(*arrivals, 21), 1);
}

}  // namespace
}  // namespace hydrant::server::bench
