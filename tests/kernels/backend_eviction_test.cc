// Evict and Compact of every backend in small scenes, each named for what it must not get wrong.
// eviction_oracle_test.cc judges whole traces.

#include <gtest/gtest.h>

#include <map>

#include "tests/kernels/kv_driver.h"

namespace hydrant::kernels {
namespace {

constexpr int kDirections = 64;

// Heads of 64 directions and no rotation. Every key points in one direction, the first 64 each in
// their own, and a query gives all of its attention to one direction: scores are whole numbers.
KvShape PointingShape(int heads, int kv_heads) {
  KvShape shape{heads, kv_heads, kDirections, 1};
  shape.rope_base = 0.0f;
  return shape;
}

int DirectionOf(int32_t position) {
  return position < kDirections ? position : 1 + position % (kDirections - 1);  // 0 stays unique
}

// target(query head, position): the direction that gets the attention.
RowSource Pointing(const KvShape& shape, std::function<int(int head, int32_t position)> target) {
  return
      [shape, target = std::move(target)](uint64_t seed, int layer, int32_t position, float* row) {
        std::fill_n(row, shape.qkv_cols(), 0.0f);
        for (int h = 0; h < shape.heads; ++h) row[h * kDirections + target(h, position)] = 1000.0f;
        for (int h = shape.heads; h < shape.heads + shape.kv_heads; ++h) {
          row[h * kDirections + DirectionOf(position)] = 1.0f;
        }
        float* values = row + (shape.heads + shape.kv_heads) * kDirections;
        for (int i = 0; i < shape.kv_heads * kDirections; ++i) values[i] = position + i / 128.0f;
      };
}

std::vector<int32_t> Positions(const KvDriver& driver, int sequence, int head = 0) {
  std::vector<int32_t> positions;
  for (const Slot& slot : driver.Held(sequence, 0, head)) positions.push_back(slot.position);
  std::sort(positions.begin(), positions.end());
  return positions;
}

std::map<int32_t, float> Scores(const KvDriver& driver, int sequence, int head = 0) {
  std::map<int32_t, float> scores;
  for (const Slot& slot : driver.Held(sequence, 0, head)) scores[slot.position] = slot.score;
  return scores;
}

int32_t Victim(const KvDriver& driver, int sequence, int head = 0) {
  return driver.Held(sequence, 0, head)[driver.Hole(sequence, 0, head)].position;
}

class BackendEvictionTest : public BackendTest {};

TEST_P(BackendEvictionTest, KeepsSinkHeavyAndRecent) {
  const KvShape shape = PointingShape(1, 1);
  // Positions 5 and 9 are looked at most, then 7.
  const RowSource source = Pointing(shape, [](int, int32_t position) {
    return position < 10 ? 63 : position % 4 == 3 ? 7 : position % 4 == 2 ? 5 : 9;
  });
  KvDriver driver(MakeBackend(GetParam()), shape, source);
  const int sequence = driver.Add(1);
  driver.Pass({sequence, 40});
  driver.Compact({{sequence, {2, 2, 3}}});
  EXPECT_EQ(Positions(driver, sequence), (std::vector<int32_t>{0, 1, 5, 9, 37, 38, 39}));
}

// A 16-bit score would stop growing at 1,024 or 2,048.
TEST_P(BackendEvictionTest, ScoresGrowPastWhatHalfPrecisionHolds) {
  const KvShape shape = PointingShape(1, 1);
  const EvictionPolicy policy{1, 2, 3};
  const RowSource source = Pointing(shape, [](int, int32_t) { return 0; });
  KvDriver driver(MakeBackend(GetParam()), shape, source);
  const int sequence = driver.Add(1);
  driver.Pass({sequence, 64});
  driver.Compact({{sequence, policy}});
  for (int step = 0; step < 2600; ++step) {
    driver.Pass({sequence, 1});
    driver.Evict({{sequence, policy}});
  }
  EXPECT_EQ(Scores(driver, sequence)[0], 64.0f + 2600.0f);
}

// All heads fill their blocks to the last slot, and look at the first and the last.
TEST_P(BackendEvictionTest, HeadsDoNotShareScores) {
  const KvShape shape = PointingShape(6, 3);
  const RowSource source = Pointing(shape, [](int head, int32_t position) {
    constexpr int kTargets[] = {0, 31, 16};
    return position < 31 ? 60 : kTargets[head / 2];
  });
  KvDriver driver(MakeBackend(GetParam()), shape, source);
  const int sequence = driver.Add(1);
  driver.Pass({sequence, 32});
  std::vector<std::map<int32_t, float>> start;
  for (int head = 0; head < 3; ++head) start.push_back(Scores(driver, sequence, head));
  driver.Pass({sequence, 1});
  for (int head = 0; head < 3; ++head) {
    SCOPED_TRACE(head);
    constexpr int kTargets[] = {0, 31, 16};
    for (const auto& [position, score] : Scores(driver, sequence, head)) {
      if (position == 32) continue;
      // Two query heads share the KV head.
      EXPECT_FLOAT_EQ(score - start[head][position], position == kTargets[head] ? 2.0f : 0.0f)
          << "position " << position;
    }
  }
}

TEST_P(BackendEvictionTest, ScoresAreNotSummedOverTheBatch) {
  KvDriver driver(MakeBackend(GetParam()), {});
  std::vector<KvDriver::Part> parts;
  for (int i = 0; i < 5; ++i) parts.push_back({driver.Add(8), 20});
  driver.Pass(parts);
  KvDriver alone(MakeBackend(GetParam()), {});
  alone.Add(8);
  alone.Pass({0, 20});
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(driver.Held(i) == alone.Held(0)) << i;
}

// The newest token has been looked at least of all, and is safe for `recent` steps.
TEST_P(BackendEvictionTest, TheRecentWindowIncludesTheTokenOfThisStep) {
  for (const int recent : {1, 2, 3}) {
    SCOPED_TRACE(recent);
    const KvShape shape = PointingShape(1, 1);
    const RowSource source = Pointing(shape, [](int, int32_t position) { return position % 4; });
    KvDriver driver(MakeBackend(GetParam()), shape, source);
    const int sequence = driver.Add(1);
    const EvictionPolicy policy{0, 4, recent};
    driver.Pass({sequence, 12});  // 0..3 are looked at three times each
    driver.Compact({{sequence, policy}});
    for (int32_t position = 12; position < 20; ++position) {
      driver.Pass({sequence, 1});
      driver.Evict({{sequence, policy}});
      EXPECT_EQ(Victim(driver, sequence), position - recent);
    }
  }
}

TEST_P(BackendEvictionTest, SinksStayThoughNobodyLooksAtThem) {
  const KvShape shape = PointingShape(1, 1);
  const RowSource source =
      Pointing(shape, [](int, int32_t position) { return DirectionOf(position); });
  KvDriver driver(MakeBackend(GetParam()), shape, source);
  const int sequence = driver.Add(1);
  const EvictionPolicy policy{3, 2, 2};
  driver.Pass({sequence, 20, false});
  driver.Compact({{sequence, policy}});
  for (int step = 0; step < 30; ++step) {
    driver.Pass({sequence, 1});
    driver.Evict({{sequence, policy}});
    const std::vector<int32_t> held = Positions(driver, sequence);
    ASSERT_EQ((std::vector<int32_t>{held.begin(), held.begin() + 3}),
              (std::vector<int32_t>{0, 1, 2}));
  }
}

TEST_P(BackendEvictionTest, TheOldestOfEqualScoresGoesFirst) {
  const EvictionPolicy policy{1, 5, 2};
  KvDriver driver(MakeBackend(GetParam()), {});
  const int sequence = driver.Add(1);
  driver.Pass({sequence, 20, false});  // every score is zero
  driver.Compact({{sequence, policy}});
  for (int layer = 0; layer < 2; ++layer) {
    for (int head = 0; head < 2; ++head) {
      std::vector<int32_t> positions;
      for (const Slot& slot : driver.Held(sequence, layer, head)) {
        positions.push_back(slot.position);
      }
      std::sort(positions.begin(), positions.end());
      EXPECT_EQ(positions, (std::vector<int32_t>{0, 13, 14, 15, 16, 17, 18, 19}));
    }
  }
  for (int32_t oldest = 13; oldest < 30; ++oldest) {
    driver.Pass({sequence, 1, false});
    driver.Evict({{sequence, policy}});
    EXPECT_EQ(Victim(driver, sequence), oldest);
  }
}

// Victims are each head's own; two sequences with policies of their own go in one call.
TEST_P(BackendEvictionTest, HeadsAndSequencesChooseTheirOwnVictims) {
  const KvShape shape = PointingShape(2, 2);
  const RowSource source = Pointing(shape, [](int head, int32_t) { return head == 0 ? 0 : 1; });
  KvDriver driver(MakeBackend(GetParam()), shape, source);
  const int a = driver.Add(1), b = driver.Add(2);
  driver.Pass({{a, 4}, {b, 6}});
  driver.Evict({{a, {0, 1, 2}}, {b, {2, 1, 2}}});
  EXPECT_EQ(Victim(driver, a, 0), 1);
  EXPECT_EQ(Victim(driver, a, 1), 0);
  EXPECT_EQ(Victim(driver, b, 0), 2);
  EXPECT_EQ(Victim(driver, b, 1), 2);
}

TEST_P(BackendEvictionTest, ABudgetOfTheLengthIsBitIdenticalToFull) {
  for (const KvDType dtype : kKvDTypes) {
    SCOPED_TRACE(KvDTypeName(dtype));
    const KvShape shape{6, 2, 64, 2, dtype};
    KvDriver full(MakeBackend(GetParam()), shape), bounded(MakeBackend(GetParam()), shape);
    full.Add(4);
    bounded.Add(4);
    ExpectIdentical(bounded.Pass({0, 30, true}), full.Pass({0, 30, false}));
    const std::vector<Slot> before = bounded.Held(0);
    bounded.Compact({{0, {4, 16, 10}}});
    bounded.Compact({{0, {0, 100, 1}}});
    EXPECT_TRUE(bounded.Held(0) == before);
    for (int step = 0; step < 5; ++step) {
      ExpectIdentical(bounded.Pass({0, 1, true}), full.Pass({0, 1, false}));
    }
  }
}

// Memory that another sequence has left behind starts from score 0 and the new positions.
TEST_P(BackendEvictionTest, AReusedBlockKeepsNothingOfItsFormerOwner) {
  KvShape shape;
  shape.num_blocks = 4;
  const EvictionPolicy policy{1, 5, 4};
  const auto run = [&](KvDriver& driver, uint64_t seed) {
    const int sequence = driver.Add(seed);
    std::vector<float> outputs = driver.Pass({sequence, 45});
    driver.Compact({{sequence, policy}});
    for (int step = 0; step < 8; ++step) {
      const std::vector<float> out = driver.Pass({sequence, 1});
      outputs.insert(outputs.end(), out.begin(), out.end());
      driver.Evict({{sequence, policy}});
    }
    return std::pair(sequence, outputs);
  };
  KvDriver fresh(MakeBackend(GetParam()), shape), used(MakeBackend(GetParam()), shape);
  for (uint64_t seed = 1; seed <= 3; ++seed) used.Release(run(used, seed).first);
  const auto [expected_sequence, expected] = run(fresh, 9);
  const auto [sequence, outputs] = run(used, 9);
  ExpectIdentical(outputs, expected);
  EXPECT_TRUE(used.Held(sequence) == fresh.Held(expected_sequence));
}

// Compaction returns whole blocks: what is kept lies in the first slots, and others use the rest.
TEST_P(BackendEvictionTest, FreedBlocksCanBeUsedByOthersAtOnce) {
  KvShape shape;
  shape.num_blocks = 7;
  const EvictionPolicy policy{2, 8, 7};  // 17 slots: two blocks
  KvDriver driver(MakeBackend(GetParam()), shape);
  const int first = driver.Add(1);
  driver.Pass({first, 100});
  ASSERT_EQ(driver.blocks(first).size(), 7u);
  driver.Compact({{first, policy}});
  ASSERT_EQ(driver.blocks(first).size(), 2u);
  const std::vector<Slot> kept = driver.Held(first);
  const int second = driver.Add(2);
  driver.Pass({second, 80});
  EXPECT_TRUE(driver.Held(first) == kept);
  KvDriver alone(MakeBackend(GetParam()), shape);
  alone.Add(2);
  alone.Pass({0, 80});
  EXPECT_TRUE(driver.Held(second) == alone.Held(0));
}

// The next token's position counts tokens, not the rows that are left.
TEST_P(BackendEvictionTest, PositionsGoOnAfterCompaction) {
  KvDriver driver(MakeBackend(GetParam()), {}), full(MakeBackend(GetParam()), {});
  const int sequence = driver.Add(6);
  full.Add(6);
  driver.Pass({sequence, 50});
  full.Pass({0, 50});
  driver.Compact({{sequence, {1, 4, 3}}});
  driver.Pass({sequence, 1});
  full.Pass({0, 1});
  const Slot newest = driver.Held(sequence, 0, 0).back();
  EXPECT_EQ(newest.position, 50);
  EXPECT_EQ(newest.key, full.Held(0, 0, 0).back().key);  // rotated as the 51st token
}

// A layer that looks four tokens back gives up those it has passed, a sink and a favourite too.
TEST_P(BackendEvictionTest, WhatAWindowHasPassedGoesFirst) {
  KvShape shape{1, 1, 16, 2, KvDType::kF32, {0, 4}};
  KvDriver driver(MakeBackend(GetParam()), shape);
  const int sequence = driver.Add(1);
  const EvictionPolicy policy{2, 2, 3};
  driver.Pass({sequence, 8});
  for (int32_t step = 0; step < 4; ++step) {
    driver.Evict({{sequence, policy}});
    EXPECT_EQ(driver.Held(sequence, 1, 0)[driver.Hole(sequence, 1, 0)].position, step);
    EXPECT_GE(driver.Held(sequence, 0, 0)[driver.Hole(sequence, 0, 0)].position, 2);
    driver.Pass({sequence, 1});
  }
}

HYDRANT_INSTANTIATE(BackendEvictionTest, AllBackendNames());

}  // namespace
}  // namespace hydrant::kernels
