#include "kernels/softmax.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/sampling.h"

namespace hydrant::kernels {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(SoftmaxTest, ExpIsAccurate) {
  double worst = 0;
  for (float x = 0; x > -87; x -= 0.0037f) {
    worst = std::max(worst, std::abs(ExpOfNonPositive(x) / std::exp(double{x}) - 1));
  }
  EXPECT_LT(worst, 2e-7);
  EXPECT_EQ(ExpOfNonPositive(0), 1);
  EXPECT_EQ(ExpOfNonPositive(-88), 0);
  EXPECT_EQ(ExpOfNonPositive(-kInf), 0);
  EXPECT_EQ(ExpOfNonPositive(kNan), 0);
}

TEST(SoftmaxTest, TheLargestIsNeverANanAndOfEqualsTheFirst) {
  std::mt19937 rng(1);
  for (int trial = 0; trial < 2000; ++trial) {
    std::vector<float> logits(1 + rng() % 100);
    for (float& x : logits) {
      x = static_cast<float>(rng() % 10);
      if (rng() % 5 == 0) x = kNan;
      if (rng() % 5 == 0) x = -kInf;
    }
    int32_t expected = -1;
    for (size_t i = 0; i < logits.size(); ++i) {
      if (logits[i] > (expected < 0 ? -kInf : logits[expected])) expected = static_cast<int32_t>(i);
    }
    const float max = MaxLogit(logits);
    ASSERT_EQ(max, expected < 0 ? -kInf : logits[expected]);
    if (expected >= 0) {
      ASSERT_EQ(FirstEqual(logits, max), expected);
    }
  }
}

TEST(SoftmaxTest, MassesAreWeightsInWholeNumbers) {
  for (const int64_t vocabulary : {int64_t{1}, int64_t{100}, int64_t{151936}, int64_t{1} << 24}) {
    const float one = MassOfOne(vocabulary);
    // All of a vocabulary that weighs the same can be added up.
    EXPECT_LE(double{one} * static_cast<double>(vocabulary), 0x1p52);
    EXPECT_GT(double{one} * static_cast<double>(vocabulary), 0x1p50);
    for (float weight = 1; weight > 1e-20f; weight *= 0.7123f) {
      EXPECT_EQ(double{MassOf(weight, one)}, std::nearbyint(double{weight} * one)) << weight;
    }
  }
}

TEST(SoftmaxTest, MassesAddUpToTheSameInAnyOrder) {
  std::mt19937 rng(5);
  std::normal_distribution<float> normal(0, 6);
  std::vector<float> logits(3001);
  for (float& x : logits) x = normal(rng);
  const float max = MaxLogit(logits), one = MassOfOne(3001);
  const auto sum = [&] { return SumMasses({logits, max, 1.5f, 1e-4f, one}); };
  const double expected = sum();
  double one_by_one = 0;
  for (const float x : logits) one_by_one += SumMasses({{&x, 1}, max, 1.5f, 1e-4f, one});
  EXPECT_EQ(one_by_one, expected);
  std::shuffle(logits.begin(), logits.end(), rng);
  EXPECT_EQ(sum(), expected);
  // The last token that counts is reached by the whole, and not before.
  const Weighed weighed{logits, max, 1.5f, 1e-4f, one};
  std::vector<double> sums_of_blocks;
  EXPECT_EQ(SumMasses(weighed, &sums_of_blocks), expected);
  const int32_t last = ReachMass(weighed, sums_of_blocks, expected);
  EXPECT_GT(SumMasses({{&logits[last], 1}, max, 1.5f, 1e-4f, one}), 0);
  for (size_t i = last + 1; i < logits.size(); ++i) {
    EXPECT_EQ(SumMasses({{&logits[i], 1}, max, 1.5f, 1e-4f, one}), 0);
  }
}

}  // namespace
}  // namespace hydrant::kernels
