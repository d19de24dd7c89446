#include "kernels/candidates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <vector>

#include "kernels/softmax.h"

namespace hydrant::kernels {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Normal logits, some of them equal, some NaN or -inf.
std::vector<float> RandomLogits(std::mt19937* rng, size_t size, float spread) {
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> logits(size);
  for (float& x : logits) {
    x = normal(*rng);
    if ((*rng)() % 4 == 0) x = std::round(x);
    if ((*rng)() % 16 == 0) x = -kInf;
    if ((*rng)() % 32 == 0) x = kNan;
  }
  logits[(*rng)() % size] = 1;
  return logits;
}

struct Token {
  double logit;
  int32_t id;
  double probability = 0;
};

// Every token above -inf sorted by probability, ties by id.
std::vector<Token> Sorted(const std::vector<float>& logits, double temperature) {
  std::vector<Token> tokens;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > -kInf) tokens.push_back({logits[i], static_cast<int32_t>(i)});
  }
  std::sort(tokens.begin(), tokens.end(), [](const Token& a, const Token& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
  });
  for (Token& t : tokens) t.probability = std::exp((t.logit - tokens[0].logit) / temperature);
  return tokens;
}

void Normalise(std::vector<Token>* tokens) {
  double sum = 0;
  for (const Token& t : *tokens) sum += t.probability;
  for (Token& t : *tokens) t.probability /= sum;
}

std::set<int32_t> Ids(const std::vector<Token>& tokens) {
  std::set<int32_t> ids;
  for (const Token& t : tokens) ids.insert(t.id);
  return ids;
}

std::set<int32_t> Kept(const Candidates& candidates) {
  std::set<int32_t> ids;
  for (const Candidate& c : candidates.kept()) ids.insert(c.id);
  EXPECT_EQ(ids.size(), candidates.kept().size());
  return ids;
}

void Filter(const std::vector<float>& logits, float temperature, int32_t top_k, float top_p,
            float min_p, Candidates* candidates) {
  TokenDraw draw;
  draw.temperature = temperature;
  draw.top_k = top_k;
  draw.top_p = top_p;
  draw.min_p = min_p;
  candidates->Filter(logits, MaxLogit(logits), draw);
}

TEST(SelectBestTest, MatchesASort) {
  std::mt19937 rng(1);
  std::vector<Candidate> best;
  for (int trial = 0; trial < 3000; ++trial) {
    const std::vector<float> logits = RandomLogits(&rng, 1 + rng() % 500, 2);
    std::vector<Token> expected = Sorted(logits, 1);
    const size_t count = rng() % (logits.size() + 1);
    if (count < expected.size()) expected.resize(count);
    SelectBest(logits, static_cast<int32_t>(count), &best);
    std::set<int32_t> ids;
    for (const Candidate& c : best) {
      ids.insert(c.id);
      ASSERT_EQ(c.logit, logits[c.id]);
    }
    ASSERT_EQ(ids, Ids(expected)) << trial;
    ASSERT_EQ(best.size(), expected.size());
  }
}

TEST(CandidatesTest, FiltersMatchASort) {
  std::mt19937 rng(2);
  Candidates candidates;
  int undecided = 0;
  constexpr int kTrials = 6000;
  for (int trial = 0; trial < kTrials; ++trial) {
    const std::vector<float> logits = RandomLogits(&rng, 1 + rng() % 300, 0.1f + rng() % 40 * 0.1f);
    const float temperature = 0.25f + rng() % 8 * 0.25f;
    const int32_t top_k = rng() % 2 ? 1 + rng() % 320 : 0;
    const float top_p = top_k == 0 || rng() % 2 ? (1 + rng() % 999) / 1000.0f : 1.0f;
    const float min_p = rng() % 2 ? rng() % 300 / 1000.0f : 0.0f;
    Filter(logits, temperature, top_k, top_p, min_p, &candidates);

    std::vector<Token> expected = Sorted(logits, temperature);
    if (top_k > 0 && expected.size() > static_cast<size_t>(top_k)) expected.resize(top_k);
    // Where a bound falls within rounding of a token the sort does not decide.
    bool decided = true;
    if (top_p < 1) {
      Normalise(&expected);
      double mass = 0;
      size_t n = 0;
      while (n < expected.size() && mass < top_p) {
        mass += expected[n++].probability;
        decided &= std::abs(mass - top_p) > 1e-6;
      }
      expected.resize(n);
    }
    const double bound = min_p * expected[0].probability;
    std::erase_if(expected, [&](const Token& t) {
      decided &= std::abs(t.probability / bound - 1) > 1e-6;
      return t.probability < bound;
    });
    if (!decided) {
      ++undecided;
      continue;
    }
    ASSERT_EQ(Kept(candidates), Ids(expected))
        << trial << ": top_k " << top_k << " top_p " << top_p << " min_p " << min_p;
  }
  EXPECT_LT(undecided, kTrials / 100);
}

TEST(CandidatesTest, TopPKeepsTheSmallestPrefix) {
  // Probabilities 1/2, 1/4, 1/8, 1/8: the two last are equal, and the lower id comes first.
  const float ln2 = std::log(2.0f);
  const std::vector<float> logits = {-3 * ln2, -1 * ln2, -3 * ln2, -2 * ln2};
  Candidates candidates;
  const auto kept = [&](float top_p) {
    Filter(logits, 1, 0, top_p, 0, &candidates);
    return Kept(candidates);
  };
  EXPECT_EQ(kept(1e-6f), (std::set<int32_t>{1}));
  EXPECT_EQ(kept(0.49f), (std::set<int32_t>{1}));
  EXPECT_EQ(kept(0.51f), (std::set<int32_t>{1, 3}));
  EXPECT_EQ(kept(0.76f), (std::set<int32_t>{0, 1, 3}));
  EXPECT_EQ(kept(0.99f), (std::set<int32_t>{0, 1, 2, 3}));
  // top-p is of what top-k left: 2/3, 1/3.
  Filter(logits, 1, 2, 0.6f, 0, &candidates);
  EXPECT_EQ(Kept(candidates), (std::set<int32_t>{1}));
}

TEST(CandidatesTest, ExtremeValuesKeepTheBest) {
  Candidates candidates;
  for (const std::vector<float>& logits :
       {std::vector<float>{0, 1e30f, -1e30f}, std::vector<float>{kNan, kInf, 3},
        std::vector<float>{-kInf, 0, -kInf}, std::vector<float>{-3e38f, -1, -3e38f}}) {
    for (float temperature : {1e-45f, 1e-6f, 1e-3f}) {
      for (int32_t top_k : {0, 1, 3, std::numeric_limits<int32_t>::max()}) {
        Filter(logits, temperature, top_k, 0.999f, 0, &candidates);
        EXPECT_EQ(Kept(candidates), (std::set<int32_t>{1})) << temperature << " " << top_k;
        EXPECT_EQ(candidates.Draw(0.999999), 1);
      }
    }
  }
}

TEST(CandidatesTest, DrawInvertsTheDistributionInOrderOfIds) {
  const float ln2 = std::log(2.0f);
  // 1/8, 1/2, 1/8, 1/4
  const std::vector<float> logits = {-3 * ln2, -1 * ln2, -3 * ln2, -2 * ln2};
  Candidates candidates;
  Filter(logits, 1, 4, 1, 0, &candidates);
  const auto draw = [&](double u) { return candidates.Draw(u); };
  EXPECT_EQ(draw(0), 0);
  EXPECT_EQ(draw(0.12), 0);
  EXPECT_EQ(draw(0.13), 1);
  EXPECT_EQ(draw(0.62), 1);
  EXPECT_EQ(draw(0.63), 2);
  EXPECT_EQ(draw(0.74), 2);
  EXPECT_EQ(draw(0.76), 3);
  EXPECT_EQ(draw(1 - 0x1p-53), 3);
}

}  // namespace
}  // namespace hydrant::kernels
