// Random traces through every backend, judged step by step: scores and outputs by naive attention
// in double over the tokens that are held, victims by the eviction oracle, exactly.

#include "tests/kernels/eviction_oracle.h"

#include <gtest/gtest.h>

#include "tests/kernels/kv_driver.h"
#include "tests/kernels/naive_attention.h"

namespace hydrant::kernels {
namespace {

// One sequence on a backend, and the same in the textbook's way beside it.
class JudgedSequence {
 public:
  JudgedSequence(const std::string& backend, const KvShape& shape, const RowSource& source)
      : driver_(MakeBackend(backend), shape, source),
        naive_(shape),
        weight_rounding_(WeightRounding(backend)) {
    driver_.Add(kSeed);
  }

  void Pass(int rows, bool keep_scores) {
    const int32_t first = driver_.next_position(0);
    const std::vector<float> out = driver_.Pass({0, rows, keep_scores});
    std::vector<double> expected;
    for (int layer = 0; layer < shape().layers; ++layer) {
      for (int32_t position = first; position < first + rows; ++position) {
        std::vector<float> row(shape().qkv_cols());
        driver_.source()(kSeed, layer, position, row.data());
        for (const double value : naive_.Append(layer, position, row, keep_scores)) {
          expected.push_back(value);
        }
      }
    }
    ExpectCloseOutputs(out, expected, shape().dtype, 1e-4, weight_rounding_);
    ForEachHead([&](int layer, int head) {
      for (const ScoredPosition& token : Scored(layer, head)) {
        const double score = Naive(layer, head, token.position).score;
        ASSERT_NEAR(token.score, score, 1e-4 * (1.0 + score)) << "position " << token.position;
      }
    });
  }

  void Compact(const EvictionPolicy& policy) {
    const int32_t newest = driver_.next_position(0) - 1;
    std::vector<std::vector<int32_t>> expected;
    std::vector<std::map<int32_t, Slot>> before;
    ForEachHead([&](int layer, int head) {
      expected.push_back(OracleKept(Scored(layer, head), policy, newest, Window(layer)));
      before.push_back(ByPosition(layer, head));
    });
    driver_.Compact({{0, policy}});
    ForEachHead([&](int layer, int head) {
      const size_t i = layer * shape().kv_heads + head;
      const std::map<int32_t, Slot> after = ByPosition(layer, head);
      std::vector<int32_t> kept;
      for (const auto& [position, slot] : after) {
        kept.push_back(position);
        EXPECT_TRUE(slot == before[i][position]) << "position " << position << " has changed";
      }
      ASSERT_EQ(kept, expected[i]);
      std::erase_if(naive_.tokens(layer, head),
                    [&](const NaiveToken& t) { return !after.contains(t.position); });
    });
  }

  void EvictOne(const EvictionPolicy& policy) {
    const int32_t newest = driver_.next_position(0) - 1;
    std::vector<int32_t> expected;
    ForEachHead([&](int layer, int head) {
      expected.push_back(OracleVictim(Scored(layer, head), policy, newest, Window(layer)));
    });
    driver_.Evict({{0, policy}});
    ForEachHead([&](int layer, int head) {
      const int32_t hole = driver_.Hole(0, layer, head);
      ASSERT_GE(hole, 0);
      ASSERT_LT(hole, driver_.num_slots(0));
      const int32_t victim = driver_.Held(0, layer, head)[hole].position;
      ASSERT_EQ(victim, expected[layer * shape().kv_heads + head]);
      std::erase_if(naive_.tokens(layer, head),
                    [&](const NaiveToken& t) { return t.position == victim; });
    });
  }

  // The engine's order of things: prompt in chunks, compaction, decode with eviction.
  void Generate(const EvictionPolicy& policy, int prompt, int steps, bool keep_scores,
                Random& random) {
    for (int left = prompt; left > 0;) {
      const int rows = random.Int(1, left);
      Pass(rows, keep_scores);
      left -= rows;
    }
    Compact(policy);
    for (int step = 0; step < steps && !testing::Test::HasFailure(); ++step) {
      SCOPED_TRACE(testing::Message() << "step " << step);
      Pass(1, keep_scores);
      if (driver_.num_slots(0) > policy.budget()) EvictOne(policy);
    }
  }

 private:
  static constexpr uint64_t kSeed = 77;

  const KvShape& shape() const { return driver_.shape(); }
  int32_t Window(int layer) const { return shape().windows.empty() ? 0 : shape().windows[layer]; }

  template <typename Function>
  void ForEachHead(const Function& function) const {
    for (int layer = 0; layer < shape().layers; ++layer) {
      for (int head = 0; head < shape().kv_heads; ++head) {
        SCOPED_TRACE(testing::Message() << "layer " << layer << ", KV head " << head);
        function(layer, head);
      }
    }
  }

  // What the backend holds.
  std::vector<ScoredPosition> Scored(int layer, int head) const {
    std::vector<ScoredPosition> result;
    for (const Slot& slot : driver_.Held(0, layer, head)) {
      result.push_back({slot.position, slot.score});
    }
    return result;
  }
  std::map<int32_t, Slot> ByPosition(int layer, int head) const {
    std::map<int32_t, Slot> result;
    for (const Slot& slot : driver_.Held(0, layer, head)) {
      EXPECT_TRUE(result.emplace(slot.position, slot).second)
          << "position " << slot.position << " is held twice";
    }
    return result;
  }

  const NaiveToken& Naive(int layer, int head, int32_t position) {
    static const NaiveToken kMissing{-1, NAN, {}, {}};
    for (const NaiveToken& token : naive_.tokens(layer, head)) {
      if (token.position == position) return token;
    }
    ADD_FAILURE() << "position " << position << " should not be held";
    return kMissing;
  }

  KvDriver driver_;
  NaiveSequence naive_;
  const double weight_rounding_;
};

const std::vector<EvictionPolicy>& Policies() {
  static const std::vector<EvictionPolicy> kPolicies = {
      {0, 0, 1}, {0, 0, 8},  {0, 0, 19},                // window
      {1, 0, 1}, {4, 0, 12}, {3, 0, 20}, {50, 0, 2},    // streaming; a sink beyond the prompt
      {0, 1, 1}, {0, 8, 8},  {0, 13, 1}, {0, 20, 13},   // heavy hitters
      {2, 7, 5}, {1, 30, 2}, {40, 3, 2}, {16, 16, 16},  // sink and heavy hitters
  };
  return kPolicies;
}

std::string Describe(const EvictionPolicy& policy, int prompt) {
  return "sink " + std::to_string(policy.sink) + ", heavy " + std::to_string(policy.heavy) +
         ", recent " + std::to_string(policy.recent) + ", prompt " + std::to_string(prompt);
}

// Keys of few directions and queries at one of them or at none: scores are often exactly equal.
RowSource CoarseRows(const KvShape& shape) {
  return [shape](uint64_t seed, int layer, int32_t position, float* row) {
    Random random(seed + 31 * position + layer);
    std::fill_n(row, shape.qkv_cols(), 0.0f);
    for (int h = 0; h < shape.heads; ++h) {
      if (random.Bool()) row[h * shape.head_dim + random.Int(0, 3)] = 1000.0f;
    }
    for (int h = shape.heads; h < shape.heads + 2 * shape.kv_heads; ++h) {
      row[h * shape.head_dim + position % 4] = 1.0f;
    }
  };
}

class EvictionOracleTest : public BackendTest {};

TEST_P(EvictionOracleTest, AgreesOnEveryStepOfRandomTraces) {
  Random random(1);
  for (const EvictionPolicy& policy : CasesFor(GetParam(), Policies())) {
    const int budget = policy.budget();
    for (const int prompt : {1, budget, budget + 1, 3 * budget / 2 + 5}) {
      SCOPED_TRACE(Describe(policy, prompt));
      KvShape shape{4, 2, 16, 1};
      JudgedSequence sequence(GetParam(), shape, RandomRows(shape));
      const bool keep_scores = policy.needs_scores(/*windows=*/false) || random.Bool();
      sequence.Generate(policy, prompt, budget + 12, keep_scores, random);
      if (HasFailure()) return;
    }
  }
}

// Windows that are shorter than the budget, longer than it, and one token long.
TEST_P(EvictionOracleTest, AgreesWhereLayersHaveWindows) {
  Random random(2);
  for (const EvictionPolicy& policy : CasesFor(GetParam(), Policies())) {
    for (const int prompt : {5, policy.budget() + 9}) {
      SCOPED_TRACE(Describe(policy, prompt));
      KvShape shape{2, 1, 16, 4, KvDType::kF32, {0, 1, 6, 30}};
      JudgedSequence sequence(GetParam(), shape, RandomRows(shape));
      sequence.Generate(policy, prompt, policy.budget() + 12, policy.needs_scores(/*windows=*/true),
                        random);
      if (HasFailure()) return;
    }
  }
}

TEST_P(EvictionOracleTest, AgreesInCoarseDTypes) {
  Random random(3);
  for (const KvDType dtype : kKvDTypes) {
    if (dtype == KvDType::kF32) continue;
    for (const EvictionPolicy& policy : CasesFor(GetParam(), Policies())) {
      SCOPED_TRACE(std::string(KvDTypeName(dtype)) + ", " + Describe(policy, 45));
      KvShape shape{3, 1, 64, 1, dtype, {}, -1, 0.0f};
      JudgedSequence sequence(GetParam(), shape, RandomRows(shape));
      sequence.Generate(policy, 45, 30, policy.needs_scores(/*windows=*/false), random);
      if (HasFailure()) return;
    }
  }
}

TEST_P(EvictionOracleTest, AgreesWhereScoresAreEqual) {
  Random random(4);
  for (const EvictionPolicy& policy : CasesFor(GetParam(), Policies())) {
    for (const bool keep_scores : {false, true}) {
      SCOPED_TRACE(Describe(policy, 40));
      KvShape shape{4, 2, 16, 2, KvDType::kF32, {0, 25}, -1, 0.0f};
      JudgedSequence sequence(GetParam(), shape, CoarseRows(shape));
      sequence.Generate(policy, 40, 40, keep_scores, random);
      if (HasFailure()) return;
    }
  }
}

// Compaction between the chunks of a prompt.
TEST_P(EvictionOracleTest, AgreesWhereEachChunkIsCompacted) {
  Random random(5);
  for (const EvictionPolicy& policy : CasesFor(GetParam(), Policies())) {
    SCOPED_TRACE(Describe(policy, 100));
    KvShape shape{4, 2, 16, 2, KvDType::kF32, {0, 11}};
    JudgedSequence sequence(GetParam(), shape, RandomRows(shape));
    for (int left = 100; left > 0;) {
      const int rows = random.Int(1, std::min(left, 40));
      sequence.Pass(rows, policy.needs_scores(/*windows=*/true));
      sequence.Compact(policy);
      left -= rows;
    }
    if (HasFailure()) return;
  }
}

// Every combination of a short prompt with small counts.
TEST_P(EvictionOracleTest, AgreesOnAllSmallCompactions) {
  for (int prompt = 1; prompt <= 9; ++prompt) {
    for (int sink = 0; sink <= 3; ++sink) {
      for (int heavy = 0; heavy <= 3; ++heavy) {
        for (int recent = 1; recent <= 3; ++recent) {
          const EvictionPolicy policy{sink, heavy, recent};
          SCOPED_TRACE(Describe(policy, prompt));
          KvShape shape{2, 2, 16, 2, KvDType::kF32, {0, 4}};
          shape.num_blocks = 2;
          JudgedSequence sequence(GetParam(), shape, RandomRows(shape));
          sequence.Pass(prompt, true);
          sequence.Compact(policy);
          if (HasFailure()) return;
        }
      }
    }
  }
}

HYDRANT_INSTANTIATE(EvictionOracleTest, AllBackendNames());

}  // namespace
}  // namespace hydrant::kernels
