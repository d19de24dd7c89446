#include "engine/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "engine/philox.h"
#include "kernels/backend.h"

namespace hydrant::engine {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

AppliedSampling Greedy() {
  AppliedSampling params;
  params.temperature = 0;
  return params;
}

// The next token, nothing where there is none; `logits` are changed as its draw says.
std::optional<int32_t> Sample(Sampler& sampler, std::vector<float>& logits,
                              const std::vector<int32_t>& banned = {}) {
  static const std::unique_ptr<kernels::Backend> backend = kernels::CreateReferenceBackend();
  const kernels::TokenDraw draw = sampler.Next(banned);
  int32_t token = -1;
  backend->Sample({logits.data(), 1, static_cast<int64_t>(logits.size())}, {&draw, 1}, {&token, 1});
  for (const kernels::LogitChange& change : draw.changes) {
    logits[change.id] = Changed(change, logits[change.id]);
  }
  if (token < 0) return std::nullopt;
  sampler.Record(token);
  return token;
}

std::optional<int32_t> SampleOnce(const AppliedSampling& params, std::vector<float> logits,
                                  const std::vector<int32_t>& banned = {}) {
  Sampler sampler(params, static_cast<int32_t>(logits.size()), {});
  return Sample(sampler, logits, banned);
}

// ---- The generator ----

// The known answers of the authors' Random123 distribution.
TEST(PhiloxTest, KnownAnswers) {
  using Counter = std::array<uint32_t, 4>;
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}),
            (Counter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (Counter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Counter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(PhiloxTest, UniformsLieInTheUnitInterval) {
  double sum = 0;
  for (uint64_t i = 0; i < 10000; ++i) {
    const double u = UniformAt(~uint64_t{0}, i);
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    sum += u;
  }
  EXPECT_NEAR(sum / 10000, 0.5, 0.015);  // five standard deviations
}

// ---- Greedy ----

TEST(SamplerTest, GreedyIsArgMax) {
  EXPECT_EQ(SampleOnce(Greedy(), {1, 3, 2, 3}), 1);
  EXPECT_EQ(SampleOnce(Greedy(), {kNan, -5, kNan}), 1);
  EXPECT_EQ(SampleOnce(Greedy(), {0, kInf, 5}), 1);
  EXPECT_EQ(SampleOnce(Greedy(), {-7}), 0);
  EXPECT_EQ(SampleOnce(Greedy(), {1, 3, 2}, {1, -4, 99}), 2);
}

TEST(SamplerTest, NothingToChooseGivesNothing) {
  AppliedSampling plain, filtered;
  filtered.top_p = 0.5f;
  for (const AppliedSampling& params : {Greedy(), plain, filtered}) {
    EXPECT_EQ(SampleOnce(params, {kNan, kNan}), std::nullopt);
    EXPECT_EQ(SampleOnce(params, {-kInf, kNan, -kInf}), std::nullopt);
    EXPECT_EQ(SampleOnce(params, {1, 2}, {0, 1}), std::nullopt);
    EXPECT_EQ(SampleOnce(params, {1, kNan}), 0);
    EXPECT_EQ(SampleOnce(params, {3}), 0);
  }
}

// ---- Bias and penalties ----

TEST(SamplerTest, LogitBiasIsAdded) {
  AppliedSampling params = Greedy();
  params.logit_bias = {{0, 2.5f}, {1, -100.0f}, {-1, 100.0f}, {3, 100.0f}};
  std::vector<float> logits = {1, 5, 3};
  Sampler sampler(params, 3, {});
  EXPECT_EQ(Sample(sampler, logits), 0);
  EXPECT_EQ(logits, (std::vector<float>{3.5f, -95, 3}));
}

TEST(SamplerTest, PenaltiesByHand) {
  AppliedSampling params = Greedy();
  params.repetition_penalty = 2;
  params.presence_penalty = 0.5f;
  params.frequency_penalty = 0.25f;
  const std::vector<int32_t> prompt = {0, 1, 1, -3, 77};
  Sampler sampler(params, 5, prompt);
  // The prompt counts for the repetition penalty alone, once: 8 / 2 and -2 * 2.
  std::vector<float> logits = {8, -2, 6, 1, -1};
  EXPECT_EQ(Sample(sampler, logits), 2);
  EXPECT_EQ(logits, (std::vector<float>{4, -4, 6, 1, -1}));
  // 2 was generated once: 9 / 2 - 0.5 - 0.25.
  logits = {7, -2, 9, 1, -1};
  EXPECT_EQ(Sample(sampler, logits), 2);
  EXPECT_EQ(logits, (std::vector<float>{3.5f, -4, 3.75f, 1, -1}));
  // Twice: 9 / 2 - 0.5 - 2 * 0.25; 0 wins, and then has its own.
  logits = {8, -2, 9, 1, -1};
  EXPECT_EQ(Sample(sampler, logits), 0);
  EXPECT_EQ(logits, (std::vector<float>{4, -4, 3.5f, 1, -1}));
  logits = {8, -2, 9, 1, -1};
  EXPECT_EQ(Sample(sampler, logits), 2);
  EXPECT_EQ(logits, (std::vector<float>{3.25f, -4, 3.5f, 1, -1}));
}

TEST(SamplerTest, BiasComesBeforePenalties) {
  AppliedSampling params = Greedy();
  params.repetition_penalty = 2;
  params.logit_bias = {{0, 4.0f}};
  std::vector<float> logits = {-1, 1};
  Sampler sampler(params, 2, std::vector<int32_t>{0});
  EXPECT_EQ(Sample(sampler, logits), 0);
  EXPECT_EQ(logits[0], 1.5f);  // (-1 + 4) / 2
}

// ---- Draws ----

// Pearson's statistic of `draws` samples against the probabilities.
double ChiSquare(const AppliedSampling& params, const std::vector<float>& logits,
                 const std::vector<double>& probabilities, int draws) {
  Sampler sampler(params, static_cast<int32_t>(logits.size()), {});
  std::vector<int> counts(logits.size());
  std::vector<float> scratch;
  for (int i = 0; i < draws; ++i) {
    scratch = logits;
    ++counts[Sample(sampler, scratch).value()];
  }
  double statistic = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    const double expected = probabilities[i] * draws;
    if (expected == 0) {
      EXPECT_EQ(counts[i], 0) << "token " << i;
    } else {
      statistic += (counts[i] - expected) * (counts[i] - expected) / expected;
    }
  }
  return statistic;
}

std::vector<double> Softmax(const std::vector<float>& logits, double temperature) {
  std::vector<double> p;
  double sum = 0;
  for (float x : logits) sum += p.emplace_back(std::exp(x / temperature));
  for (double& x : p) x /= sum;
  return p;
}

TEST(SamplerTest, DrawsFollowTheDistribution) {
  std::vector<float> logits;
  for (int i = 0; i < 20; ++i) logits.push_back(static_cast<float>((i * 7) % 20) * 0.15f);
  for (float temperature : {0.5f, 1.0f, 2.0f}) {
    AppliedSampling params;
    params.temperature = temperature;
    params.seed = 42;
    const std::vector<double> p = Softmax(logits, temperature);
    // 19 degrees of freedom: exceeded once in ten thousand.
    EXPECT_LT(ChiSquare(params, logits, p, 20000), 50.8);
    params.top_k = 20;  // keeps all, but draws another way
    EXPECT_LT(ChiSquare(params, logits, p, 20000), 50.8);
  }
}

TEST(SamplerTest, DrawsFollowTheFilteredDistribution) {
  const std::vector<float> logits = {std::log(0.1f), std::log(0.4f), std::log(0.2f),
                                     std::log(0.25f), std::log(0.05f)};
  AppliedSampling params;
  params.seed = 7;
  params.top_k = 3;
  const std::vector<double> three = {0, 0.4 / 0.85, 0.2 / 0.85, 0.25 / 0.85, 0};
  EXPECT_LT(ChiSquare(params, logits, three, 10000), 18.4);  // 2 degrees
  params.top_k = 0;
  params.top_p = 0.8f;
  EXPECT_LT(ChiSquare(params, logits, three, 10000), 18.4);
  params.top_p = 1;
  params.min_p = 0.45f;
  EXPECT_LT(ChiSquare(params, logits, three, 10000), 18.4);
  params.min_p = 1;
  EXPECT_EQ(ChiSquare(params, logits, {0, 1, 0, 0, 0}, 100), 0);
}

TEST(SamplerTest, DrawsFollowTheDistributionOverALargeVocabulary) {
  // 100 tokens of equal weight, spread over many blocks, among weightless ones.
  std::vector<float> logits(3007, -kInf);
  std::vector<double> p(logits.size());
  for (int i = 0; i < 100; ++i) {
    logits[i * 30 + 6] = 3;
    p[i * 30 + 6] = 0.01;
  }
  AppliedSampling params;
  params.seed = 1;
  EXPECT_LT(ChiSquare(params, logits, p, 10000), 160);  // 99 degrees, one in ten thousand
}

TEST(SamplerTest, ASeedGivesTheSameTokensWhateverElseIsSampled) {
  std::mt19937 rng(3);
  std::vector<std::vector<float>> steps(50, std::vector<float>(1000));
  for (auto& logits : steps) {
    for (float& x : logits) x = static_cast<float>(rng() % 1000) / 200;
  }
  for (int variant = 0; variant < 3; ++variant) {
    AppliedSampling params;
    params.seed = 99;
    if (variant == 1) params.top_p = 0.9f;
    if (variant == 2) params.top_k = 40, params.presence_penalty = 1;
    const auto run = [&](uint64_t seed, bool disturbed) {
      params.seed = seed;
      Sampler sampler(params, 1000, {});
      Sampler other(params, 1000, {});
      std::vector<int32_t> tokens;
      for (std::vector<float> logits : steps) {
        std::vector<float> copy = logits;
        tokens.push_back(*Sample(sampler, logits));
        if (disturbed) Sample(other, copy);
      }
      return tokens;
    };
    EXPECT_EQ(run(99, false), run(99, true));
    EXPECT_NE(run(99, false), run(100, false));
  }
}

// ---- Log-probabilities ----

TEST(LogprobsTest, AreTheLogSoftmaxBestFirst) {
  std::mt19937 rng(4);
  std::normal_distribution<float> normal(0, 4);
  std::vector<float> logits(5000);
  for (float& x : logits) x = std::round(normal(rng) * 8) / 8 + 300;
  double sum = 0;
  for (float x : logits) sum += std::exp(double{x} - 300);
  const auto logprob = [&](int32_t id) { return logits[id] - 300 - std::log(sum); };
  const TokenLogprobs result = ComputeLogprobs(logits, 17, 30);
  EXPECT_EQ(result.token_id, 17);
  EXPECT_NEAR(*result.logprob, logprob(17), 2e-6);
  ASSERT_EQ(result.top.size(), 30u);
  EXPECT_EQ(logits[result.top[0].token_id], *std::max_element(logits.begin(), logits.end()));
  for (size_t i = 0; i < 30; ++i) {
    EXPECT_NEAR(result.top[i].logprob, logprob(result.top[i].token_id), 2e-6);
    if (i == 0) continue;
    const TopLogprob& before = result.top[i - 1];
    const TopLogprob& here = result.top[i];
    EXPECT_TRUE(before.logprob > here.logprob ||
                (before.logprob == here.logprob && before.token_id < here.token_id));
  }
}

TEST(LogprobsTest, EdgeCases) {
  TokenLogprobs result = ComputeLogprobs(std::vector<float>{kNan, 2, -kInf, 2}, 0, 10);
  EXPECT_EQ(result.logprob, -kInf);
  ASSERT_EQ(result.top.size(), 2u);
  EXPECT_EQ(result.top[0].token_id, 1);
  EXPECT_EQ(result.top[1].token_id, 3);
  EXPECT_FLOAT_EQ(result.top[0].logprob, std::log(0.5f));

  EXPECT_TRUE(ComputeLogprobs(std::vector<float>{1, 2}, 1, 0).top.empty());
  EXPECT_EQ(ComputeLogprobs(std::vector<float>{5}, 0, 1).logprob, 0);
  EXPECT_EQ(ComputeLogprobs(std::vector<float>{1, kInf}, 1, 1).logprob, 0);
  EXPECT_EQ(ComputeLogprobs(std::vector<float>{1, kInf}, 0, 1).logprob, -kInf);

  result = ComputeLogprobs(std::vector<float>{kNan, kNan}, 1, 2);
  EXPECT_EQ(result.logprob, -kInf);
  EXPECT_TRUE(result.top.empty());
}

}  // namespace
}  // namespace hydrant::engine
