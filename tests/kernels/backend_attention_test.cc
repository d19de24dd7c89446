// RopeAndStore and Attention of every backend: what they compute.

#include <gtest/gtest.h>

#include <iterator>

#include "tests/kernels/kv_driver.h"
#include "tests/kernels/naive_attention.h"

namespace hydrant::kernels {
namespace {

class BackendAttentionTest : public BackendTest {};
class AttentionMatchTest : public BackendTest {};

std::vector<KvShape> ManyShapes() {
  struct Heads {
    int heads, kv_heads;
  };
  std::vector<KvShape> shapes;
  for (const int head_dim : {16, 32, 64, 80, 96, 128, 256}) {
    // Groups of 1, 2, 3, 4, 8 and 9 query heads; several and one KV head.
    for (const Heads h : {Heads{3, 3}, {4, 2}, {6, 2}, {4, 1}, {8, 1}, {9, 1}, {1, 1}}) {
      KvShape shape;
      shape.heads = h.heads;
      shape.kv_heads = h.kv_heads;
      shape.head_dim = head_dim;
      shape.windows = {0, 7};
      shape.dtype = kKvDTypes[shapes.size() % std::size(kKvDTypes)];
      // Rotation rounds differently on each backend, and coarse numbers make a step of that: where
      // K is coarse, compare without; where it is f32, also with a part of the head rotated.
      if (shape.dtype != KvDType::kF32) shape.rope_base = 0.0f;
      if (shapes.size() % 4 == 2) shape.rotary_dim = head_dim / 2;
      shapes.push_back(shape);
    }
  }
  return shapes;
}

std::string Describe(const KvShape& shape) {
  return std::to_string(shape.heads) + " heads, " + std::to_string(shape.kv_heads) +
         " KV heads, head size " + std::to_string(shape.head_dim) + ", " +
         std::string(KvDTypeName(shape.dtype));
}

// Prefill, chunks and decodes of four sequences together, the first with holes in decode.
std::vector<std::vector<float>> RunRagged(KvDriver& driver) {
  const int a = driver.Add(1), b = driver.Add(2), c = driver.Add(3), d = driver.Add(4);
  std::vector<std::vector<float>> outputs;
  const auto pass = [&](const std::vector<KvDriver::Part>& parts) {
    for (std::vector<float>& out : driver.Pass(parts)) outputs.push_back(std::move(out));
  };
  pass({{a, 17}, {b, 1, false}, {c, 33}});
  pass({{c, 5}, {a, 1}, {d, 21}});
  for (int step = 0; step < 3; ++step) {
    std::vector<int32_t> holes;
    for (int i = 0; i < driver.shape().layers * driver.shape().kv_heads; ++i) {
      holes.push_back((5 * step + 3 * i) % driver.num_slots(a));
    }
    driver.SetHoles(a, holes);
    pass({{d, step == 1 ? 9 : 1}, {b, 1, false}, {a, 1}, {c, 1}});
  }
  return outputs;
}

void ExpectCloseSlots(const std::vector<Slot>& actual, const std::vector<Slot>& expected,
                      double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    SCOPED_TRACE(testing::Message() << "slot " << i);
    ASSERT_EQ(actual[i].position, expected[i].position);
    ASSERT_NEAR(actual[i].score, expected[i].score, tolerance * (1.0 + expected[i].score));
    ExpectClose(actual[i].key, expected[i].key, tolerance);
    ExpectClose(actual[i].value, expected[i].value, tolerance);
  }
}

TEST_P(BackendAttentionTest, IsTheTextbooks) {
  for (KvShape shape :
       {KvShape{}, KvShape{6, 2, 80, 2, KvDType::kF32, {9, 0}, 40},
        KvShape{9, 3, 64, 1, KvDType::kBF16, {}, -1, 0.0f},
        KvShape{2, 1, 21, 2, KvDType::kBF16, {0, 9}, 0}, KvShape{19, 1, 72, 1, KvDType::kBF16, {}},
        KvShape{9, 3, 64, 1, KvDType::kInt8, {}, -1, 0.0f},
        KvShape{2, 1, 21, 2, KvDType::kInt8, {0, 9}, 0},
        KvShape{9, 3, 64, 1, KvDType::kInt4, {}, -1, 0.0f},
        KvShape{2, 1, 21, 2, KvDType::kInt4, {0, 9}, 0},
        KvShape{4, 2, 80, 1, KvDType::kKivi2, {}, -1, 0.0f},
        KvShape{2, 2, 6, 1, KvDType::kKivi2, {7}, 0}}) {
    SCOPED_TRACE(Describe(shape));
    constexpr int kRows = 37;
    KvDriver driver(MakeBackend(GetParam()), shape);
    const int sequence = driver.Add(5);
    const std::vector<float> out = driver.Pass({sequence, kRows});
    NaiveSequence naive(shape);
    std::vector<double> expected;
    for (int layer = 0; layer < shape.layers; ++layer) {
      for (int position = 0; position < kRows; ++position) {
        std::vector<float> row(shape.qkv_cols());
        driver.source()(5, layer, position, row.data());
        for (const double value : naive.Append(layer, position, row, true)) {
          expected.push_back(value);
        }
      }
    }
    const double tolerance = AttentionTolerance(GetParam(), shape.dtype, 2e-5);
    ExpectCloseOutputs(out, expected, shape.dtype, tolerance, WeightRounding(GetParam()));
    for (int layer = 0; layer < shape.layers; ++layer) {
      for (int head = 0; head < shape.kv_heads; ++head) {
        const std::vector<Slot> held = driver.Held(sequence, layer, head);
        ASSERT_EQ(held.size(), static_cast<size_t>(kRows));
        for (int i = 0; i < kRows; ++i) {
          const NaiveToken& token = naive.tokens(layer, head)[i];
          ASSERT_EQ(held[i].position, i);
          ASSERT_NEAR(held[i].score, token.score, tolerance * (1.0 + token.score));
          ExpectClose(held[i].key, token.key, 1e-6);
          ExpectClose(held[i].value, token.value, KvIsGrouped(shape.dtype) ? 1e-6 : 0.0);
        }
      }
    }
  }
}

TEST_P(AttentionMatchTest, MatchesTheReference) {
  for (const KvShape& shape : CasesFor(GetParam(), ManyShapes())) {
    SCOPED_TRACE(Describe(shape));
    KvDriver reference(CreateReferenceBackend(), shape);
    KvDriver driver(MakeBackend(GetParam()), shape);
    const std::vector<std::vector<float>> expected = RunRagged(reference);
    const std::vector<std::vector<float>> actual = RunRagged(driver);
    ASSERT_EQ(actual.size(), expected.size());
    const double tolerance = AttentionTolerance(GetParam(), shape.dtype, 1e-5);
    for (size_t i = 0; i < actual.size(); ++i) {
      ExpectCloseOutputs(actual[i], expected[i], shape.dtype, tolerance,
                         WeightRounding(GetParam()));
    }
    for (int sequence = 0; sequence < 4; ++sequence) {
      ExpectCloseSlots(driver.Held(sequence), reference.Held(sequence), tolerance);
    }
    if (HasFailure()) return;
  }
}

// With rotation, a key may round to the bf16 beside the reference's, so its step is allowed.
TEST_P(AttentionMatchTest, MatchesTheReferenceInBF16WithRotation) {
  KvShape shape{6, 2, 64};
  shape.dtype = KvDType::kBF16;
  KvDriver reference(CreateReferenceBackend(), shape);
  KvDriver driver(MakeBackend(GetParam()), shape);
  const std::vector<std::vector<float>> expected = RunRagged(reference);
  const std::vector<std::vector<float>> actual = RunRagged(driver);
  for (size_t i = 0; i < actual.size(); ++i)
    ExpectCloseOutputs(actual[i], expected[i], shape.dtype, 1e-3);
  for (int sequence = 0; sequence < 4; ++sequence) {
    ExpectCloseSlots(driver.Held(sequence), reference.Held(sequence), 0x1p-8);
  }
}

TEST_P(AttentionMatchTest, MatchesTheReferenceInQuantisedDTypesWithRotation) {
  for (const KvDType dtype : {KvDType::kInt8, KvDType::kInt4, KvDType::kKivi2}) {
    SCOPED_TRACE(KvDTypeName(dtype));
    KvShape shape{6, 2, 64};
    shape.dtype = dtype;
    const double step = std::ldexp(1.0, 1 - KvBitsOf(dtype).key);
    KvDriver reference(CreateReferenceBackend(), shape);
    KvDriver driver(MakeBackend(GetParam()), shape);
    const std::vector<std::vector<float>> expected = RunRagged(reference);
    const std::vector<std::vector<float>> actual = RunRagged(driver);
    for (size_t i = 0; i < actual.size(); ++i) ExpectClose(actual[i], expected[i], step);
    for (int sequence = 0; sequence < 4; ++sequence) {
      ExpectCloseSlots(driver.Held(sequence), reference.Held(sequence), 2 * step);
    }
  }
}

// int8: keys and values are spread evenly, so their error is 1 / (127 sqrt(3)) or 0.5 % of their
// size, and the softmax turns the keys' into about as much again. int4 and kivi2: a group's range
// is about 4.2 times the spread of its rotated numbers, so that the values' error is 4.2 / (15
// sqrt(12)) or 8 % of their size, and 4.2 / (3 sqrt(12)) or 40 %.
TEST_P(BackendAttentionTest, QuantisedDTypesAreAsCloseToF32AsTheirSteps) {
  KvShape shape{6, 2, 64, 1};
  KvDriver exact(MakeBackend(GetParam()), shape);
  exact.Add(8);
  const std::vector<float> expected = exact.Pass({0, 200});
  for (const auto& [dtype, bound] :
       {std::pair{KvDType::kInt8, 0.015}, {KvDType::kInt4, 0.1}, {KvDType::kKivi2, 0.5}}) {
    SCOPED_TRACE(KvDTypeName(dtype));
    shape.dtype = dtype;
    KvDriver rounded(MakeBackend(GetParam()), shape);
    rounded.Add(8);
    const std::vector<float> actual = rounded.Pass({0, 200});
    double error = 0.0, size = 0.0;
    for (size_t i = 0; i < expected.size(); ++i) {
      error += std::pow(actual[i] - expected[i], 2.0);
      size += std::pow(expected[i], 2.0);
    }
    EXPECT_GT(std::sqrt(error / size), bound / 10);
    EXPECT_LT(std::sqrt(error / size), bound);
  }
}

TEST_P(AttentionMatchTest, MatchesTheReferenceOverLongSequences) {
  const std::vector<KvDType> dtypes(std::begin(kKvDTypes), std::end(kKvDTypes));
  for (const KvDType dtype : CasesFor(GetParam(), dtypes)) {
    KvShape shape{3, 1, 64, 1, dtype, {}, -1, 0.0f};
    shape.max_rows = 530;
    KvDriver reference(CreateReferenceBackend(), shape);
    KvDriver driver(MakeBackend(GetParam()), shape);
    for (KvDriver* d : {&reference, &driver}) d->Add(9);
    const double tolerance = AttentionTolerance(GetParam(), dtype, 1e-5);
    for (const int rows : {530, 1, 3, 1}) {
      ExpectCloseOutputs(driver.Pass({0, rows}), reference.Pass({0, rows}), dtype, tolerance,
                         WeightRounding(GetParam()));
    }
    ExpectCloseSlots(driver.Held(0), reference.Held(0), tolerance);
  }
}

// The largest score comes late, by steps of 27 and of 1.5: what came before is negligible after the
// first and is not after the second.
TEST_P(AttentionMatchTest, MatchesTheReferenceWhereScoresGrow) {
  for (const KvDType dtype : {KvDType::kF32, KvDType::kBF16, KvDType::kInt8}) {
    KvShape shape{3, 1, 64, 1, dtype, {}, -1, 0.0f};
    const RowSource random = RandomRows(shape);
    const RowSource growing = [random, queries = 3 * 64](uint64_t seed, int layer, int32_t position,
                                                         float* row) {
      random(seed, layer, position, row);
      for (int c = 0; c < queries; ++c) row[c] = c % 64 == 0 ? 8.0f : row[c] / 10;
      row[queries] = position < 64 ? 0.0f : position < 150 ? 27.0f : 28.5f;
    };
    KvDriver reference(CreateReferenceBackend(), shape, growing);
    KvDriver driver(MakeBackend(GetParam()), shape, growing);
    for (KvDriver* d : {&reference, &driver}) d->Add(9);
    const double tolerance = AttentionTolerance(GetParam(), dtype, 1e-5);
    for (const int rows : {170, 1, 40}) {
      ExpectCloseOutputs(driver.Pass({0, rows}), reference.Pass({0, rows}), dtype, tolerance,
                         WeightRounding(GetParam()));
    }
    ExpectCloseSlots(driver.Held(0), reference.Held(0), tolerance);
  }
}

// Logits of thousands: the largest is subtracted before the exponential.
TEST_P(BackendAttentionTest, SurvivesLargeLogits) {
  const KvShape shape{4, 2, 32};
  const RowSource random = RandomRows(shape);
  const RowSource large = [random, cols = shape.qkv_cols(), queries = shape.heads * 32](
                              uint64_t seed, int layer, int32_t position, float* row) {
    random(seed, layer, position, row);
    for (int c = 0; c < queries; ++c) row[c] *= 3000.0f;
  };
  KvDriver driver(MakeBackend(GetParam()), shape, large);
  const int sequence = driver.Add(9);
  for (const float value : driver.Pass({sequence, 20})) ASSERT_LE(std::fabs(value), 1.001f);
  double sum = 0.0;
  for (const Slot& slot : driver.Held(sequence, 0, 0)) sum += slot.score;
  EXPECT_NEAR(sum, 20 * 2, 1e-3);
}

TEST_P(BackendAttentionTest, ProbabilitiesOfARowSumToOne) {
  const KvShape shape{6, 2, 16, 2, KvDType::kF32, {0, 5}};
  KvDriver driver(MakeBackend(GetParam()), shape);
  const int sequence = driver.Add(3);
  driver.Pass({sequence, 45});
  for (int step = 0; step < 5; ++step) driver.Pass({sequence, 1});
  for (int layer = 0; layer < 2; ++layer) {
    for (int head = 0; head < 2; ++head) {
      double sum = 0.0;
      for (const Slot& slot : driver.Held(sequence, layer, head)) sum += slot.score;
      EXPECT_NEAR(sum, 50 * 3, 1e-3);  // rows times query heads of the group
    }
  }
}

TEST_P(BackendAttentionTest, ScoresGrowOnlyWhenKept) {
  KvDriver driver(MakeBackend(GetParam()), {});
  const int sequence = driver.Add(3);
  driver.Pass({sequence, 20, false});
  for (const Slot& slot : driver.Held(sequence)) EXPECT_EQ(slot.score, 0.0f);
  driver.Pass({sequence, 1, true});
  for (const Slot& slot : driver.Held(sequence)) EXPECT_GT(slot.score, 0.0f);
  const std::vector<Slot> before = driver.Held(sequence, 0, 0);
  driver.Pass({sequence, 1, false});
  const std::vector<Slot> after = driver.Held(sequence, 0, 0);
  EXPECT_TRUE(std::equal(before.begin(), before.end(), after.begin()));
  EXPECT_EQ(after.back().score, 0.0f);
}

TEST_P(BackendAttentionTest, AWindowHidesOlderTokens) {
  KvShape shape{2, 1, 16, 1, KvDType::kF32, {4}};
  KvDriver driver(MakeBackend(GetParam()), shape);
  const int sequence = driver.Add(3);
  driver.Pass({sequence, 10, false});
  driver.Pass({sequence, 1, true});  // position 10 sees 7, 8, 9, 10
  for (const Slot& slot : driver.Held(sequence, 0, 0)) {
    EXPECT_EQ(slot.score > 0.0f, slot.position > 10 - 4) << slot.position;
  }
}

HYDRANT_INSTANTIATE(BackendAttentionTest, AllBackendNames());
HYDRANT_INSTANTIATE(AttentionMatchTest, OptimisedBackendNames());

}  // namespace
}  // namespace hydrant::kernels
