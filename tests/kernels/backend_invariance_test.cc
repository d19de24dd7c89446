// The contract of attention on every backend: a row's result depends on its own sequence alone, bit
// for bit, and nothing is written outside of its slots.

#include <gtest/gtest.h>

#include "tests/kernels/kv_driver.h"

namespace hydrant::kernels {
namespace {

class BackendInvarianceTest : public BackendTest {};

// What is bit-identical here must be so in every one of these.
std::vector<KvShape> Shapes() {
  return {{4, 2, 16, 2, KvDType::kF32, {}},           {9, 3, 64, 1, KvDType::kBF16, {}},
          {6, 2, 80, 2, KvDType::kBF16, {0, 21}},     {8, 1, 32, 1, KvDType::kF32, {40}},
          {2, 1, 21, 2, KvDType::kBF16, {0, 21}, 20}, {19, 1, 72, 1, KvDType::kBF16, {}},
          {1, 1, 128, 1, KvDType::kBF16, {}},         {3, 3, 96, 1, KvDType::kF32, {}},
          {9, 3, 64, 1, KvDType::kInt8, {}},          {4, 2, 20, 2, KvDType::kInt8, {0, 21}},
          {9, 3, 64, 1, KvDType::kInt4, {}},          {4, 2, 21, 2, KvDType::kInt4, {0, 21}, 20},
          {6, 2, 80, 1, KvDType::kKivi2, {}},         {2, 1, 64, 2, KvDType::kKivi2, {0, 21}}};
}

// Runs one sequence in chunks of the given sizes; its outputs by layer, then row.
struct Trace {
  std::vector<std::vector<float>> outputs;  // [layers][rows * heads * head_dim]
  std::vector<Slot> held;

  friend bool operator==(const Trace&, const Trace&) = default;
};

Trace RunInChunks(std::unique_ptr<Backend> backend, const KvShape& shape,
                  const std::vector<int>& chunks, uint64_t seed = 21) {
  KvDriver driver(std::move(backend), shape);
  const int sequence = driver.Add(seed);
  Trace trace;
  trace.outputs.resize(shape.layers);
  for (const int rows : chunks) {
    const std::vector<float> out = driver.Pass({sequence, rows});
    const size_t part = out.size() / shape.layers;
    for (int layer = 0; layer < shape.layers; ++layer) {
      trace.outputs[layer].insert(trace.outputs[layer].end(), out.begin() + layer * part,
                                  out.begin() + (layer + 1) * part);
    }
  }
  trace.held = driver.Held(sequence);
  return trace;
}

void ExpectSameTrace(const Trace& actual, const Trace& expected) {
  for (size_t layer = 0; layer < expected.outputs.size(); ++layer) {
    SCOPED_TRACE(testing::Message() << "layer " << layer);
    ExpectIdentical(actual.outputs[layer], expected.outputs[layer]);
  }
  EXPECT_TRUE(actual.held == expected.held) << "keys, values, positions or scores differ";
}

TEST_P(BackendInvarianceTest, ChunksOfAnySizeEqualTheWholePrompt) {
  constexpr int kRows = 75;
  Random random(4);
  for (const KvShape& shape : CasesFor(GetParam(), Shapes())) {
    SCOPED_TRACE(testing::Message() << "head size " << shape.head_dim);
    const Trace whole = RunInChunks(MakeBackend(GetParam()), shape, {kRows});
    std::vector<std::vector<int>> cuts = {{1, 74},  {74, 1},      {16, 59},
                                          {17, 58}, {32, 32, 11}, {3, 5, 7, 60}};
    for (int i = 0; i < 4; ++i) {
      std::vector<int> cut;
      for (int left = kRows; left > 0; left -= cut.back()) cut.push_back(random.Int(1, left));
      cuts.push_back(cut);
    }
    for (const std::vector<int>& cut : cuts) {
      SCOPED_TRACE(testing::PrintToString(cut));
      ExpectSameTrace(RunInChunks(MakeBackend(GetParam()), shape, cut), whole);
    }
  }
}

// A preempted sequence recomputes as a prompt what it had decoded.
TEST_P(BackendInvarianceTest, DecodeEqualsPrefill) {
  for (const KvShape& shape : CasesFor(GetParam(), Shapes())) {
    SCOPED_TRACE(testing::Message() << "head size " << shape.head_dim);
    const Trace prefill = RunInChunks(MakeBackend(GetParam()), shape, {50});
    ExpectSameTrace(RunInChunks(MakeBackend(GetParam()), shape, std::vector<int>(50, 1)), prefill);
  }
}

// Backends cut long sequences in pieces, whose sums must come together in one way.
TEST_P(BackendInvarianceTest, DecodeEqualsPrefillOfLongSequences) {
  for (const KvDType dtype : {KvDType::kBF16, KvDType::kKivi2}) {
    SCOPED_TRACE(KvDTypeName(dtype));
    KvShape shape{3, 1, 64, 1, dtype, {}};
    shape.max_rows = 600;
    const Trace prefill = RunInChunks(MakeBackend(GetParam()), shape, {600});
    ExpectSameTrace(RunInChunks(MakeBackend(GetParam()), shape, {255, 1, 1, 300, 1, 1, 41}),
                    prefill);
  }
}

TEST_P(BackendInvarianceTest, DoesNotDependOnTheNumberOfThreads) {
  if (MakeBackend(GetParam(), 2)->num_threads() == 1) GTEST_SKIP() << "it has one";
  for (const KvShape& shape : CasesFor(GetParam(), Shapes())) {
    SCOPED_TRACE(testing::Message() << "head size " << shape.head_dim);
    const std::vector<int> chunks = {40, 1, 1, 20, 1};
    const Trace one = RunInChunks(MakeBackend(GetParam(), 1), shape, chunks);
    for (const int threads : {2, 3, 7}) {
      ExpectSameTrace(RunInChunks(MakeBackend(GetParam(), threads), shape, chunks), one);
    }
  }
}

// Twenty sequences, of which each pass advances some by some rows, in some order; each must be what
// it is on its own, and on its own it takes the same steps.
TEST_P(BackendInvarianceTest, ASequenceDoesNotDependOnItsBatch) {
  constexpr int kSequences = 20;
  const EvictionPolicy policy{1, 6, 4};
  struct Action {
    enum Kind { kPass, kCompact, kEvict } kind;
    int rows;
  };
  for (KvShape shape : CasesFor(GetParam(), Shapes())) {
    SCOPED_TRACE(testing::Message() << "head size " << shape.head_dim);
    shape.num_blocks = 160;
    Random random(shape.head_dim);
    KvDriver together(MakeBackend(GetParam()), shape);
    std::vector<std::vector<Action>> history(kSequences);
    std::vector<std::vector<float>> outputs(kSequences);
    for (int i = 0; i < kSequences; ++i) together.Add(100 + i);
    // Odd sequences evict: a prompt in one or two chunks, compaction, then decode.
    for (int pass = 0; pass < 10; ++pass) {
      std::vector<KvDriver::Part> parts;
      for (int i = 0; i < kSequences; ++i) {
        if (random.Int(0, 2) == 0) continue;
        const bool evicts = i % 2 == 1;
        const int rows = evicts && !history[i].empty() ? 1 : random.Bool() ? 1 : random.Int(2, 30);
        parts.insert(parts.begin() + random.Int(0, parts.size()), {i, rows, evicts});
      }
      if (parts.empty()) continue;
      const std::vector<std::vector<float>> out = together.Pass(parts);
      std::vector<std::pair<int, EvictionPolicy>> to_compact, to_evict;
      for (size_t p = 0; p < parts.size(); ++p) {
        const int i = parts[p].sequence;
        outputs[i].insert(outputs[i].end(), out[p].begin(), out[p].end());
        const bool first = history[i].empty();
        history[i].push_back({Action::kPass, parts[p].rows});
        if (i % 2 == 0) continue;
        if (first) {
          history[i].push_back({Action::kCompact, 0});
          to_compact.push_back({i, policy});
        } else if (together.num_slots(i) == policy.budget() + 1) {
          history[i].push_back({Action::kEvict, 0});
          to_evict.push_back({i, policy});
        }
      }
      together.Compact(to_compact);
      together.Evict(to_evict);
    }
    for (int i = 0; i < kSequences; ++i) {
      SCOPED_TRACE(testing::Message() << "sequence " << i);
      KvDriver alone(MakeBackend(GetParam()), shape);
      alone.Add(100 + i);
      std::vector<float> expected;
      for (const Action& action : history[i]) {
        if (action.kind == Action::kCompact) alone.Compact({{0, policy}});
        if (action.kind == Action::kEvict) alone.Evict({{0, policy}});
        if (action.kind != Action::kPass) continue;
        const std::vector<float> out = alone.Pass({0, action.rows, i % 2 == 1});
        expected.insert(expected.end(), out.begin(), out.end());
      }
      ExpectIdentical(outputs[i], expected);
      EXPECT_TRUE(together.Held(i) == alone.Held(0));
    }
  }
}

std::vector<Slot> WholeStore(const KvDriver& driver) {
  std::vector<Slot> slots;
  for (int layer = 0; layer < driver.shape().layers; ++layer) {
    for (int head = 0; head < driver.shape().kv_heads; ++head) {
      for (int i = 0; i < driver.shape().num_blocks * kBlockSlots; ++i) {
        slots.push_back(driver.Read(layer, head, i));
      }
    }
  }
  return slots;
}

TEST_P(BackendInvarianceTest, WritesItsOwnSlotsOnly) {
  for (KvShape shape : CasesFor(GetParam(), Shapes())) {
    SCOPED_TRACE(testing::Message() << "head size " << shape.head_dim);
    shape.num_blocks = 12;
    KvDriver driver(MakeBackend(GetParam()), shape);
    const int bystander = driver.Add(1), writer = driver.Add(2);
    driver.Pass({{bystander, 21}, {writer, 19}});
    const auto check = [&](const char* what, const std::function<void()>& action) {
      SCOPED_TRACE(what);
      const std::vector<Slot> before = WholeStore(driver);
      const std::vector<int32_t> blocks_before = driver.blocks(writer);
      action();
      const std::vector<Slot> after = WholeStore(driver);
      std::vector<bool> owned(shape.num_blocks, false);
      for (const int32_t block : blocks_before) owned[block] = true;
      for (const int32_t block : driver.blocks(writer)) owned[block] = true;
      for (size_t i = 0; i < before.size(); ++i) {
        const int block = static_cast<int>(i / kBlockSlots) % shape.num_blocks;
        if (!owned[block]) {
          ASSERT_TRUE(before[i] == after[i]) << "slot " << i;
        }
      }
    };
    const EvictionPolicy policy{2, 9, 8};
    check("chunk", [&] { driver.Pass({writer, 14}); });
    check("compact", [&] { driver.Compact({{writer, policy}}); });
    check("append", [&] { driver.Pass({writer, 1}); });
    check("evict", [&] { driver.Evict({{writer, policy}}); });
    check("overwrite", [&] { driver.Pass({writer, 1}); });
  }
}

// Choosing victims changes nothing that is stored; overwriting one changes that slot, and scores.
TEST_P(BackendInvarianceTest, EvictionLeavesTheOtherSlotsAlone) {
  for (const KvShape& shape : CasesFor(GetParam(), Shapes())) {
    SCOPED_TRACE(testing::Message() << "head size " << shape.head_dim);
    KvDriver driver(MakeBackend(GetParam()), shape);
    const int sequence = driver.Add(2);
    const EvictionPolicy policy{1, 20, 5};
    driver.Pass({sequence, policy.budget() + 1});
    const std::vector<Slot> before = driver.Held(sequence);
    driver.Evict({{sequence, policy}});
    EXPECT_TRUE(driver.Held(sequence) == before);
    driver.Pass({sequence, 1});
    for (int layer = 0; layer < shape.layers; ++layer) {
      for (int head = 0; head < shape.kv_heads; ++head) {
        const std::vector<Slot> held = driver.Held(sequence, layer, head);
        const int first =
            (layer * shape.kv_heads + head) * policy.budget() + layer * shape.kv_heads + head;
        for (int i = 0; i < policy.budget() + 1; ++i) {
          if (i == driver.Hole(sequence, layer, head)) {
            EXPECT_EQ(held[i].position, policy.budget() + 1);
          } else {
            EXPECT_EQ(held[i].position, before[first + i].position);
            EXPECT_EQ(held[i].key, before[first + i].key);
            EXPECT_EQ(held[i].value, before[first + i].value);
          }
        }
      }
    }
  }
}

HYDRANT_INSTANTIATE(BackendInvarianceTest, AllBackendNames());

}  // namespace
}  // namespace hydrant::kernels
