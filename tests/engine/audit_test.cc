#include "engine/audit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/batch.h"

namespace hydrant::engine {
namespace {

using kernels::kBlockSlots;

constexpr AuditShape kShape{2, 4, 2, 8};

// Evicts `tokens` from every layer and head.
bool Evict(Audit& audit, int32_t tokens) {
  kernels::EvictedStore* store = audit.MakeRoom(tokens);
  if (store == nullptr) return false;
  const std::vector<float> key(kShape.head_dim, 1.0f);
  for (int layer = 0; layer < kShape.layers; ++layer) {
    for (int head = 0; head < kShape.kv_heads; ++head) {
      for (int32_t i = 0; i < tokens; ++i) store->Take(layer, head, i, i, key.data(), nullptr);
    }
  }
  return true;
}

// A decode step that finds `recall` everywhere, or in each layer what `by_layer` says; whether it
// was audited.
bool Step(Audit& audit, int32_t held, std::vector<float> by_layer) {
  const kernels::RecallAudit* step = audit.BeginStep(held);
  if (step != nullptr) {
    for (int i = 0; i < kShape.layers * kShape.heads; ++i) {
      step->recall[i] = by_layer[i / kShape.heads];
    }
  }
  audit.EndStep();
  return step != nullptr;
}
bool Step(Audit& audit, int32_t held, float recall = 0.5f) {
  return Step(audit, held, std::vector<float>(kShape.layers, recall));
}

int64_t Blocks(int64_t blocks) { return blocks * kShape.block_bytes(); }

TEST(AuditTest, UntilSomethingIsEvictedRecallIsOne) {
  AuditMemory memory(Blocks(10));
  Audit audit(kShape, memory);
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(Step(audit, 20));
  EXPECT_EQ(memory.used(), 0);
  const Recall recall = audit.Result();
  EXPECT_EQ(recall.mean, 1);
  EXPECT_EQ(recall.p5, 1);
  EXPECT_EQ(recall.steps, 0);
  EXPECT_TRUE(recall.complete);
  EXPECT_EQ(recall.layer_means, (std::vector<double>{1, 1}));
}

TEST(AuditTest, TheFirstStepAfterAnEvictionIsAudited) {
  for (const int32_t evicted : {1, 100}) {
    AuditMemory memory(Blocks(10));
    Audit audit(kShape, memory);
    EXPECT_FALSE(Step(audit, 20));
    ASSERT_TRUE(Evict(audit, evicted));
    EXPECT_TRUE(Step(audit, 20));
    EXPECT_EQ(audit.Result().steps, 1);
  }
}

// Over time at most half as many evicted keys are read as held ones, and not much fewer.
TEST(AuditTest, EvictedKeysReadAreHalfOfTheHeldOnesOverTime) {
  struct Case {
    int32_t prompt_evicted, held, steps;
  };
  for (const Case c : {Case{0, 64, 5000}, Case{1000, 64, 5000}, Case{30, 1024, 500}}) {
    AuditMemory memory(Blocks(1000));
    Audit audit(kShape, memory);
    int64_t held_read = 0, evicted_read = 0;
    int32_t evicted = c.prompt_evicted, audited = 0;
    if (evicted > 0) {
      ASSERT_TRUE(Evict(audit, evicted));
    }
    for (int i = 0; i < c.steps; ++i) {
      if (evicted > 0) held_read += c.held;
      if (Step(audit, c.held)) {
        ++audited;
        evicted_read += evicted;
        EXPECT_TRUE(audited == 1 || 2 * evicted_read <= held_read) << "step " << i;
      }
      ASSERT_TRUE(Evict(audit, 1));
      ++evicted;
    }
    EXPECT_EQ(audit.Result().steps, audited);
    EXPECT_LE(2 * evicted_read, held_read);
    if (audited < c.steps - 1) {
      EXPECT_GE(2 * evicted_read + 2 * evicted, held_read);
    }
  }
}

TEST(AuditTest, MeansAndThePercentileAreOfAllThatWasMeasured) {
  AuditMemory memory(Blocks(10));
  Audit audit(kShape, memory);
  ASSERT_TRUE(Evict(audit, 1));
  // Of 20 steps with 8 measurements each, one step has 4 low ones: 2.5 %. Another adds as many.
  for (int i = 0; i < 19; ++i) ASSERT_TRUE(Step(audit, 1000, {0.75f, 1.0f}));
  ASSERT_TRUE(Step(audit, 1000, {0.25f, 1.0f}));
  Recall recall = audit.Result();
  EXPECT_EQ(recall.steps, 20);
  EXPECT_EQ(recall.p5, 0.75);
  EXPECT_DOUBLE_EQ(recall.layer_means[0], (19 * 0.75 + 0.25) / 20);
  EXPECT_DOUBLE_EQ(recall.layer_means[1], 1);
  EXPECT_DOUBLE_EQ(recall.mean, (recall.layer_means[0] + 1) / 2);
  ASSERT_TRUE(Step(audit, 1000, {0.25f, 0.25f}));
  recall = audit.Result();
  EXPECT_EQ(recall.p5, 0.25);
  EXPECT_EQ(recall.steps, 21);
}

TEST(AuditTest, WhatIsNoNumberCountsAsBlind) {
  AuditMemory memory(Blocks(10));
  Audit audit(kShape, memory);
  ASSERT_TRUE(Evict(audit, 1));
  ASSERT_TRUE(Step(audit, 20, {std::numeric_limits<float>::quiet_NaN(), 1.0f}));
  EXPECT_EQ(audit.Result().layer_means, (std::vector<double>{0, 1}));
  EXPECT_EQ(audit.Result().p5, 0);
}

TEST(AuditTest, AFullMemoryEndsTheAuditThatAsks) {
  AuditMemory memory(Blocks(3) + 1);
  Audit first(kShape, memory), second(kShape, memory);
  ASSERT_TRUE(Evict(first, kBlockSlots));
  ASSERT_TRUE(Evict(second, 2 * kBlockSlots));
  EXPECT_EQ(memory.used(), Blocks(3));
  EXPECT_TRUE(Step(first, 1000, 0.5f));
  EXPECT_FALSE(Evict(first, 1));
  EXPECT_EQ(memory.used(), Blocks(2));  // returned at once
  EXPECT_FALSE(Step(first, 1000));
  EXPECT_FALSE(Evict(first, 1));
  const Recall recall = first.Result();
  EXPECT_FALSE(recall.complete);
  EXPECT_EQ(recall.steps, 1);
  EXPECT_EQ(recall.mean, 0.5);
  // The other goes on, in the room that came free.
  EXPECT_TRUE(Evict(second, 1));
  EXPECT_TRUE(Step(second, 1000));
  EXPECT_TRUE(second.Result().complete);
}

TEST(AuditTest, WithoutAMeasurementAnEndedAuditKnowsNothing) {
  AuditMemory memory(Blocks(1));
  Audit audit(kShape, memory);
  EXPECT_FALSE(Evict(audit, 17));
  EXPECT_EQ(memory.used(), 0);
  const Recall recall = audit.Result();
  EXPECT_FALSE(recall.complete);
  EXPECT_EQ(recall.steps, 0);
  EXPECT_EQ(recall.mean, 0);
  EXPECT_EQ(recall.p5, 0);
}

TEST(AuditTest, ReleaseReturnsTheMemoryAndKeepsTheResult) {
  AuditMemory memory(Blocks(10));
  {
    Audit audit(kShape, memory), dropped(kShape, memory);
    ASSERT_TRUE(Evict(audit, 40));
    ASSERT_TRUE(Evict(dropped, 20));
    ASSERT_TRUE(Step(audit, 20, 0.25f));
    EXPECT_EQ(memory.used(), Blocks(5));
    audit.Release();
    audit.Release();
    EXPECT_EQ(memory.used(), Blocks(2));
    EXPECT_EQ(audit.Result().mean, 0.25);
    EXPECT_TRUE(audit.Result().complete);
  }
  EXPECT_EQ(memory.used(), 0);
}

TEST(AuditTest, TheSampleIsTheShareAndTheSameEveryTime) {
  int sampled = 0, pairs = 0;
  for (int64_t arrival = 0; arrival < 10'000; ++arrival) {
    EXPECT_FALSE(IsSampledForAudit(arrival, 0));
    EXPECT_TRUE(IsSampledForAudit(arrival, 1));
    const bool is = IsSampledForAudit(arrival, 0.2);
    EXPECT_EQ(is, IsSampledForAudit(arrival, 0.2));
    sampled += is;
    pairs += is && IsSampledForAudit(arrival + 1, 0.2);
  }
  EXPECT_NEAR(sampled, 2000, 200);
  EXPECT_NEAR(pairs, 400, 100);  // neighbours are independent
}

}  // namespace
}  // namespace hydrant::engine
