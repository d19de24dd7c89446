// Choosing tokens: every backend gives the token that the definition in sampling.h gives, worked
// out here in another way than any backend does.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/sampling.h"
#include "tests/kernels/backends.h"

namespace hydrant::kernels {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

class BackendSamplingTest : public BackendTest {};

// A draw with the changes that it points to.
struct OwnedDraw {
  TokenDraw draw;
  std::vector<LogitChange> changes;
};

// A token is kept when the mass of those that are better does not yet reach what is wanted: counted
// for each token anew, no sort and no running sum.
int32_t Expected(std::vector<float> logits, const OwnedDraw& owned) {
  const TokenDraw& draw = owned.draw;
  for (const LogitChange& change : owned.changes) {
    float& logit = logits[change.id];
    logit += change.bias;
    logit = logit > 0 ? logit / change.penalty : logit * change.penalty;
    logit -= change.subtrahend;
  }
  const auto count = static_cast<int32_t>(logits.size());
  const auto can = [&](int32_t id) { return logits[id] > -kInf; };
  const auto better = [&](int32_t a, int32_t b) {
    return can(a) && (logits[a] > logits[b] || (logits[a] == logits[b] && a < b));
  };
  int32_t best = -1;
  for (int32_t id = 0; id < count; ++id) {
    if (can(id) && (best < 0 || better(id, best))) best = id;
  }
  if (best < 0 || draw.temperature == 0) return best;
  std::vector<float> weights(count);
  std::vector<uint64_t> masses(count);
  for (int32_t id = 0; id < count; ++id) {
    if (!can(id)) continue;
    weights[id] = Weight(logits[id], logits[best], draw.temperature);
    masses[id] = std::llrint(double{weights[id]} * MassOfOne(count));
  }
  std::vector<char> kept(count);
  uint64_t whole = 0;
  for (int32_t id = 0; id < count; ++id) {
    int32_t rank = 0;
    for (int32_t other = 0; draw.top_k > 0 && other < count; ++other) rank += better(other, id);
    kept[id] = can(id) && (draw.top_k == 0 || rank < draw.top_k);
    if (kept[id]) whole += masses[id];
  }
  if (draw.top_p < 1) {
    std::vector<char> reached(count);
    for (int32_t id = 0; id < count; ++id) {
      uint64_t before = 0;
      for (int32_t other = 0; other < count; ++other) {
        if (kept[other] && better(other, id)) before += masses[other];
      }
      reached[id] = before > 0 && before >= double{draw.top_p} * static_cast<double>(whole);
    }
    for (int32_t id = 0; id < count; ++id) kept[id] = kept[id] && !reached[id];
  }
  whole = 0;
  for (int32_t id = 0; id < count; ++id) {
    kept[id] = kept[id] && weights[id] >= draw.min_p;
    if (kept[id]) whole += masses[id];
  }
  uint64_t sum = 0;
  for (int32_t id = 0; id < count; ++id) {
    if (kept[id]) sum += masses[id];
    if (kept[id] && sum > draw.u * static_cast<double>(whole)) return id;
  }
  return -1;
}

// Logits of some spread, with equal ones, zeros of both signs, infinities and NaNs among them.
std::vector<float> RandomLogits(Random& random, int count) {
  const float spread = random.Bool() ? 3.0f : 12.0f;
  const bool rough = random.Bool();
  std::vector<float> logits(count);
  for (float& logit : logits) {
    const float sum = random.Float() + random.Float() + random.Float();
    logit = rough ? std::round(spread * sum) : spread * sum;
    if (random.Int(0, 30) == 0) logit = random.Bool() ? 0.0f : -0.0f;
    if (random.Int(0, 40) == 0) logit = -kInf;
    if (random.Int(0, 60) == 0) logit = NAN;
  }
  if (random.Int(0, 9) == 0) logits[random.Int(0, count - 1)] = kInf;
  return logits;
}

OwnedDraw RandomDraw(Random& random, int count) {
  constexpr float kTopPs[] = {1.0f, 1.0f, 0.999f, 0.9f, 0.5f, 1e-6f, 0.0f};
  OwnedDraw owned;
  TokenDraw& draw = owned.draw;
  draw.temperature = random.Int(0, 5) == 0 ? 0.0f : 0.2f * static_cast<float>(random.Int(1, 10));
  draw.top_k = random.Bool() ? 0 : random.Int(1, random.Bool() ? 10 : count + 5);
  draw.top_p = kTopPs[random.Int(0, 6)];
  draw.min_p = random.Bool() ? 0.0f : 0.01f * static_cast<float>(random.Int(0, 100));
  draw.u = random.Int(0, 9) == 0 ? 1 - 0x1p-53 : static_cast<double>(random.Bits() >> 11) * 0x1p-53;
  if (random.Bool()) {
    for (int id = random.Int(0, 3); id < count; id += random.Int(1, 9)) {
      LogitChange change{.id = id, .bias = random.Float()};
      if (random.Bool()) change.penalty = 1.3f;
      if (random.Bool()) change.subtrahend = random.Int(0, 3) == 0 ? kInf : random.Float();
      owned.changes.push_back(change);
    }
    std::reverse(owned.changes.begin(), owned.changes.end());
  }
  return owned;
}

std::vector<int32_t> Sample(Backend& backend, const Matrix& logits,
                            const std::vector<OwnedDraw>& owned) {
  std::vector<TokenDraw> draws;
  for (const OwnedDraw& o : owned) {
    draws.push_back(o.draw);
    draws.back().changes = o.changes;
  }
  std::vector<int32_t> tokens(draws.size(), -7);
  backend.Sample(logits, draws, tokens);
  return tokens;
}

TEST_P(BackendSamplingTest, EveryRowGetsTheTokenOfTheDefinition) {
  std::unique_ptr<Backend> backend = MakeBackend(GetParam());
  for (const int vocabulary : {1, 2, 31, 300, 1000}) {
    SCOPED_TRACE(vocabulary);
    Random random(vocabulary);
    const int rows = GetParam() == kEmulatedCuda ? 25 : 150;
    std::vector<float> logits;
    std::vector<OwnedDraw> draws;
    std::vector<int32_t> expected;
    for (int row = 0; row < rows; ++row) {
      const std::vector<float> own = RandomLogits(random, vocabulary);
      logits.insert(logits.end(), own.begin(), own.end());
      draws.push_back(RandomDraw(random, vocabulary));
      draws.back().draw.row = row;
      expected.push_back(Expected(own, draws.back()));
    }
    const DeviceRows device = ToDevice(*backend, logits, rows, vocabulary);
    ASSERT_EQ(Sample(*backend, device.matrix, draws), expected);
    // The logits are as they were, and rows may be left out and come in any order.
    const std::vector<float> after = ToHost(*backend, device.matrix);
    for (size_t i = 0; i < logits.size(); ++i) {
      ASSERT_TRUE(after[i] == logits[i] || std::isnan(logits[i])) << i;
    }
    const std::vector<OwnedDraw> some = {draws[rows - 1], draws[0], draws[rows / 2]};
    EXPECT_EQ(Sample(*backend, device.matrix, some),
              (std::vector<int32_t>{expected[rows - 1], expected[0], expected[rows / 2]}));
  }
}

TEST_P(BackendSamplingTest, NothingIsChosenWhereNothingCanBe) {
  std::unique_ptr<Backend> backend = MakeBackend(GetParam());
  const std::vector<float> logits = {NAN, -kInf, NAN, 1.0f, 2.0f, -kInf, -kInf, -1.0f, -kInf};
  const DeviceRows device = ToDevice(*backend, logits, 3, 3);
  for (const float temperature : {0.0f, 1.0f}) {
    for (const float top_p : {1.0f, 0.5f}) {
      std::vector<OwnedDraw> draws(3);
      for (int row = 0; row < 3; ++row) {
        draws[row].draw.row = row;
        draws[row].draw.temperature = temperature;
        draws[row].draw.top_p = top_p;
      }
      draws[1].changes = {{.id = 1, .subtrahend = kInf}, {.id = 0, .subtrahend = kInf}};
      EXPECT_EQ(Sample(*backend, device.matrix, draws), (std::vector<int32_t>{-1, -1, 1}));
    }
  }
}

// Wide rows go other ways: many tokens are equal or nearly so, more than a backend keeps in mind at
// a time. The scalar reference tells what is right.
TEST_P(BackendSamplingTest, WideRowsGetTheTokensOfTheReference) {
  constexpr int kVocabulary = 20011;
  std::unique_ptr<Backend> backend = MakeBackend(GetParam()), reference = CreateReferenceBackend();
  Random random(7);
  std::vector<float> logits;
  std::vector<OwnedDraw> draws;
  for (int row = 0; row < 8; ++row) {
    for (int i = 0; i < kVocabulary; ++i) {
      const float value = random.Float();
      logits.push_back(row == 0   ? 1.0f
                       : row == 1 ? std::round(value * 2.0f)
                       : row < 5  ? 1.0f + value * 1e-3f
                                  : 10.0f * value + 10.0f * random.Float());
    }
    OwnedDraw owned;
    owned.draw.row = row;
    owned.draw.temperature = row == 7 ? 0.0f : 1.0f;
    owned.draw.top_k = row == 2 ? 15000 : row == 3 || row == 5 ? 40 : 0;
    owned.draw.top_p = row == 6 ? 1.0f : 0.9f;
    owned.draw.min_p = row == 6 ? 0.01f : 0.0f;
    owned.draw.u = 0.77;
    draws.push_back(owned);
  }
  const DeviceRows device = ToDevice(*backend, logits, 8, kVocabulary);
  const DeviceRows host = ToDevice(*reference, logits, 8, kVocabulary);
  EXPECT_EQ(Sample(*backend, device.matrix, draws), Sample(*reference, host.matrix, draws));
}

HYDRANT_INSTANTIATE(BackendSamplingTest, AllBackendNames());

}  // namespace
}  // namespace hydrant::kernels
