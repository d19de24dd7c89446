// What leaves the KV cache, and what it would have weighed: the door of Evict and Compact, and the
// recall that attention measures beside an audited sequence.

#include <gtest/gtest.h>

#include <map>

#include "kernels/bfloat16.h"
#include "kernels/evicted_store.h"
#include "kernels/recall.h"
#include "tests/kernels/eviction_oracle.h"
#include "tests/kernels/kv_driver.h"
#include "tests/kernels/naive_attention.h"

namespace hydrant::kernels {
namespace {

// Keeps everything, by layer and KV head.
class Collector : public EvictedStore {
 public:
  explicit Collector(const KvShape& shape, bool values = true)
      : shape_(shape), values_(values), slots_(shape.layers * shape.kv_heads) {}

  bool takes_values() const override { return values_; }
  void Take(int layer, int head, int32_t index, int32_t position, const float* key,
            const float* value) override {
    std::vector<Slot>& slots = slots_[layer * shape_.kv_heads + head];
    EXPECT_EQ(value != nullptr, values_);
    EXPECT_EQ(static_cast<size_t>(index), slots.size() - taken_before_);
    Slot slot{position, 0.0f, {key, key + shape_.head_dim}, {}};
    if (value != nullptr) slot.value.assign(value, value + shape_.head_dim);
    slots.push_back(std::move(slot));
  }
  // A call of Evict or Compact is over.
  void EndCall() { taken_before_ = slots_[0].size(); }
  const std::vector<Slot>& slots(int layer, int head) const {
    return slots_[layer * shape_.kv_heads + head];
  }

 private:
  const KvShape shape_;
  const bool values_;
  size_t taken_before_ = 0;
  std::vector<std::vector<Slot>> slots_;
};

// What a collector holds, as an audit reads it.
class AuditedKeys {
 public:
  AuditedKeys(const KvShape& shape, const Collector& collector)
      : recall_(shape.layers * shape.heads, NAN) {
    const size_t strip = EvictedStripBytes(shape.head_dim);
    const auto count = static_cast<int32_t>(collector.slots(0, 0).size());
    // Rows that are not there hold numbers that would be noticed.
    blocks_.assign((count + kBlockSlots - 1) / kBlockSlots,
                   std::vector<uint8_t>(strip * shape.layers * shape.kv_heads, 0x7f));
    for (int i = 0; i < shape.layers * shape.kv_heads; ++i) {
      const std::vector<Slot>& slots = collector.slots(i / shape.kv_heads, i % shape.kv_heads);
      for (int32_t k = 0; k < count; ++k) {
        WriteEvictedKey(blocks_[k / kBlockSlots].data() + i * strip, shape.head_dim,
                        k % kBlockSlots, slots[k].key.data(), slots[k].position);
      }
    }
    for (const std::vector<uint8_t>& block : blocks_) pointers_.push_back(block.data());
    audit_ = {pointers_.data(), count, recall_.data()};
  }

  const RecallAudit* audit() const { return &audit_; }
  const std::vector<float>& recall() const { return recall_; }

 private:
  std::vector<std::vector<uint8_t>> blocks_;
  std::vector<const uint8_t*> pointers_;
  std::vector<float> recall_;
  RecallAudit audit_;
};

std::vector<int32_t> OraclesVictims(const std::vector<Slot>& held, const EvictionPolicy& policy,
                                    int32_t newest, int32_t window) {
  std::vector<ScoredPosition> tokens;
  for (const Slot& slot : held) tokens.push_back({slot.position, slot.score});
  const std::vector<int32_t> kept = OracleKept(tokens, policy, newest, window);
  std::vector<int32_t> victims;
  for (const Slot& slot : held) {
    if (!std::binary_search(kept.begin(), kept.end(), slot.position)) {
      victims.push_back(slot.position);
    }
  }
  return victims;  // in slot order
}

class BackendRecallTest : public BackendTest {};

std::vector<KvShape> Shapes() {
  return {{4, 2, 16, 2, KvDType::kF32, {}},      {9, 3, 64, 1, KvDType::kBF16, {}},
          {6, 2, 80, 2, KvDType::kInt8, {0, 9}}, {2, 1, 21, 2, KvDType::kBF16, {11, 0}, 0},
          {9, 1, 20, 1, KvDType::kInt8, {}},     {8, 1, 128, 1, KvDType::kF32, {17}},
          {9, 3, 64, 2, KvDType::kInt4, {}},     {4, 2, 48, 2, KvDType::kKivi2, {0, 9}},
          {19, 1, 72, 1, KvDType::kBF16}};
}

std::string Describe(const KvShape& shape) {
  return std::to_string(shape.heads) + " heads of " + std::to_string(shape.head_dim) + ", " +
         std::string(KvDTypeName(shape.dtype));
}

TEST_P(BackendRecallTest, TheOraclesVictimsLeaveWithWhatWasStored) {
  const EvictionPolicy policy{2, 9, 8};
  for (const KvShape& shape : CasesFor(GetParam(), Shapes())) {
    for (const bool values : {true, false}) {
      SCOPED_TRACE(Describe(shape));
      KvDriver driver(MakeBackend(GetParam()), shape);
      Collector collector(shape, values);
      const int sequence = driver.Add(3);
      driver.SetEvictedStore(sequence, &collector);
      // Compactions of a first and of a second chunk, then decode.
      for (int step = 0; step < 12; ++step) {
        driver.Pass({sequence, step == 0 ? 45 : step == 1 ? 30 : 1});
        std::map<std::pair<int, int>, std::vector<Slot>> before;
        for (int layer = 0; layer < shape.layers; ++layer) {
          for (int head = 0; head < shape.kv_heads; ++head) {
            before[{layer, head}] = driver.Held(sequence, layer, head);
          }
        }
        // In decode a hole waits among the held slots, so all of budget + 1 are held.
        const size_t taken = collector.slots(0, 0).size();
        if (step < 2) {
          driver.Compact({{sequence, policy}});
        } else {
          driver.Evict({{sequence, policy}});
        }
        for (const auto& [at, held] : before) {
          const auto [layer, head] = at;
          const int32_t window = shape.windows.empty() ? 0 : shape.windows[layer];
          const std::vector<int32_t> victims =
              OraclesVictims(held, policy, driver.next_position(sequence) - 1, window);
          const std::vector<Slot>& out = collector.slots(layer, head);
          ASSERT_EQ(out.size() - taken, victims.size());
          ASSERT_GE(victims.size(), 1u);
          for (size_t i = 0; i < victims.size(); ++i) {
            const Slot& slot = out[taken + i];
            ASSERT_EQ(slot.position, victims[i]);
            const auto stored = std::find_if(held.begin(), held.end(), [&](const Slot& s) {
              return s.position == slot.position;
            });
            ExpectIdentical(slot.key, stored->key);
            if (values) ExpectIdentical(slot.value, stored->value);
          }
        }
        collector.EndCall();
      }
    }
  }
}

// A sequence that has given up `evicted` tokens, its held slots and what has left.
struct Scene {
  Scene(std::unique_ptr<Backend> backend, const KvShape& shape, int evicted)
      : driver(std::move(backend), shape), collector(shape), sequence(driver.Add(kSeed)) {
    driver.SetEvictedStore(sequence, &collector);
    driver.Pass({sequence, evicted + kBudget});
    driver.Compact({{sequence, {2, 9, 8}}});
  }
  static constexpr int kBudget = 19;
  static constexpr uint64_t kSeed = 6;

  KvDriver driver;
  Collector collector;
  const int sequence;
};

double ExpSumOf(const std::vector<double>& query, const std::vector<std::vector<float>>& keys,
                double scale) {
  double sum = 0.0;
  for (const std::vector<float>& key : keys) {
    double logit = 0.0;
    for (size_t d = 0; d < key.size(); ++d) logit += query[d] * key[d];
    sum += std::exp(logit * scale);
  }
  return sum;
}

// In double, from the slots as they are read back.
std::vector<double> NaiveRecall(const Scene& scene, int32_t position) {
  const KvShape& shape = scene.driver.shape();
  const NaiveSequence naive(shape);
  const double scale = 1.0 / std::sqrt(double(shape.head_dim));
  std::vector<double> recall;
  for (int layer = 0; layer < shape.layers; ++layer) {
    const int32_t window = shape.windows.empty() ? 0 : shape.windows[layer];
    std::vector<float> row(shape.qkv_cols());
    scene.driver.source()(Scene::kSeed, layer, position, row.data());
    for (int h = 0; h < shape.heads; ++h) {
      const int head = h / (shape.heads / shape.kv_heads);
      std::vector<double> query = naive.Rotated(row.data() + h * shape.head_dim, position);
      const auto keys_of = [&](const std::vector<Slot>& slots) {
        std::vector<std::vector<float>> keys;
        for (const Slot& slot : slots) {
          if (window == 0 || slot.position > position - window) keys.push_back(slot.key);
        }
        return keys;
      };
      const auto held = keys_of(scene.driver.Held(scene.sequence, layer, head));
      auto evicted = keys_of(scene.collector.slots(layer, head));
      std::vector<double> attended = query;
      for (double& x : attended) x = naive.Multiplied(x);
      for (double& x : query) x = RoundToBF16(static_cast<float>(x));
      for (std::vector<float>& key : evicted) {
        for (float& x : key) x = RoundToBF16(x);
      }
      const double kept = ExpSumOf(attended, held, scale);
      recall.push_back(kept / (kept + ExpSumOf(query, evicted, scale)));
    }
  }
  return recall;
}

TEST_P(BackendRecallTest, IsTheShareOfTheFullCachesAttention) {
  for (KvShape shape : CasesFor(GetParam(), Shapes())) {
    // A rotated query may round to either of two bf16 numbers: compare without rotation.
    shape.rope_base = 0.0f;
    for (const int evicted : {1, 15, 16, 65, 110}) {
      SCOPED_TRACE(Describe(shape) + ", evicted " + std::to_string(evicted));
      Scene scene(MakeBackend(GetParam()), shape, evicted);
      const int32_t position = scene.driver.next_position(scene.sequence);
      const AuditedKeys keys(shape, scene.collector);
      scene.driver.Pass({scene.sequence, 1, true, keys.audit()});
      ExpectClose(keys.recall(), NaiveRecall(scene, position), 1e-5);
    }
  }
}

// Rotation agrees too, within what the rounding of a query to bf16 leaves open.
TEST_P(BackendRecallTest, RotatedQueriesMeetRotatedKeys) {
  for (const KvShape& shape : CasesFor(GetParam(), Shapes())) {
    SCOPED_TRACE(Describe(shape));
    Scene scene(MakeBackend(GetParam()), shape, 50);
    const int32_t position = scene.driver.next_position(scene.sequence);
    const AuditedKeys keys(shape, scene.collector);
    scene.driver.Pass({scene.sequence, 1, true, keys.audit()});
    ExpectClose(keys.recall(), NaiveRecall(scene, position), 2e-3);
  }
}

// A key that outweighs all others a million times over, on either side.
TEST_P(BackendRecallTest, LargeScoresNeitherOverflowNorVanish) {
  KvShape shape{2, 1, 16, 1, KvDType::kF32};
  shape.rope_base = 0.0f;
  for (const int32_t loud : {5, 29}) {  // evicted, held
    const RowSource source = [&](uint64_t, int, int32_t position, float* row) {
      std::fill_n(row, shape.qkv_cols(), 0.0f);
      row[0] = row[16] = 800.0f;
      row[32] = position == loud ? 1.0f : -1.0f;
    };
    KvDriver driver(MakeBackend(GetParam()), shape, source);
    Collector collector(shape);
    const int sequence = driver.Add(1);
    driver.SetEvictedStore(sequence, &collector);
    driver.Pass({sequence, 30, false});
    driver.Compact({{sequence, {0, 0, 10}}});
    const AuditedKeys keys(shape, collector);
    driver.Pass({sequence, 1, false, keys.audit()});
    EXPECT_EQ(keys.recall(), std::vector<float>(2, loud == 5 ? 0.0f : 1.0f));
  }
}

// Nothing is lost where the window had passed all that was evicted.
TEST_P(BackendRecallTest, KeysBehindAWindowDoNotCount) {
  const KvShape shape{4, 2, 16, 2, KvDType::kF32, {6, 6}};
  Scene scene(MakeBackend(GetParam()), shape, 40);
  const AuditedKeys keys(shape, scene.collector);
  scene.driver.Pass({scene.sequence, 1, true, keys.audit()});
  EXPECT_EQ(keys.recall(), std::vector<float>(shape.layers * shape.heads, 1.0f));
}

TEST_P(BackendRecallTest, AnAuditChangesNothingElseAndNothingChangesIt) {
  for (const KvShape& shape : CasesFor(GetParam(), Shapes())) {
    SCOPED_TRACE(Describe(shape));
    Scene plain(MakeBackend(GetParam()), shape, 35);
    const std::vector<float> expected = plain.driver.Pass({plain.sequence, 1});
    const std::vector<Slot> held = plain.driver.Held(plain.sequence);
    std::vector<float> alone;
    for (const int threads : {1, 3}) {
      for (const int others : {0, 4}) {
        Scene scene(MakeBackend(GetParam(), threads), shape, 35);
        std::vector<KvDriver::Part> parts;
        for (int i = 0; i < others; ++i) {
          parts.push_back({scene.driver.Add(20 + i), 1 + 7 * i});
        }
        const AuditedKeys keys(shape, scene.collector);
        parts.push_back({scene.sequence, 1, true, keys.audit()});
        ExpectIdentical(scene.driver.Pass(parts).back(), expected);
        EXPECT_TRUE(scene.driver.Held(scene.sequence) == held);
        if (alone.empty()) alone = keys.recall();
        ExpectIdentical(keys.recall(), alone);
      }
    }
  }
}

HYDRANT_INSTANTIATE(BackendRecallTest, AllBackendNames());

}  // namespace
}  // namespace hydrant::kernels
