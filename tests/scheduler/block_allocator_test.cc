#include "scheduler/block_allocator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

namespace hydrant::scheduler {
namespace {

using Blocks = std::vector<int32_t>;

TEST(BlocksForTest, RoundsUp) {
  EXPECT_EQ(BlocksFor(0), 0);
  EXPECT_EQ(BlocksFor(1), 1);
  EXPECT_EQ(BlocksFor(kBlockSlots), 1);
  EXPECT_EQ(BlocksFor(kBlockSlots + 1), 2);
}

TEST(BlockAllocatorTest, HandsOutLowIdsFirst) {
  BlockAllocator allocator(200);
  Blocks a, b;
  allocator.Allocate(3, &a);
  allocator.Allocate(2, &b);
  EXPECT_EQ(a, (Blocks{0, 1, 2}));
  EXPECT_EQ(b, (Blocks{3, 4}));
  EXPECT_EQ(allocator.free(), 195);
  EXPECT_EQ(allocator.held(), 5);
  EXPECT_EQ(allocator.high_water(), 5);
}

TEST(BlockAllocatorTest, ContinuesTheRunOfTheSequence) {
  BlockAllocator allocator(200);
  Blocks a, b, c;
  allocator.Allocate(2, &a);   // 0 1
  allocator.Allocate(70, &b);  // 2 .. 71
  allocator.Allocate(1, &c);   // 72
  allocator.Release(&a);
  allocator.Allocate(1, &c);  // 73 though 0 is free
  EXPECT_EQ(c, (Blocks{72, 73}));
  // Blocked by c, so b goes on at the lowest run.
  allocator.Allocate(1, &b);
  EXPECT_EQ(b.back(), 0);
}

TEST(BlockAllocatorTest, ContinuesAsFarAsTheRunGoes) {
  BlockAllocator allocator(10);
  Blocks a, b, c;
  allocator.Allocate(2, &a);  // 0 1
  allocator.Allocate(4, &b);  // 2 3 4 5
  allocator.Allocate(1, &c);  // 6
  allocator.Release(&b, 1);   // 3 4 5 free
  EXPECT_EQ(b, (Blocks{2}));
  allocator.Allocate(5, &b);
  EXPECT_EQ(b, (Blocks{2, 3, 4, 5, 7, 8}));
}

TEST(BlockAllocatorTest, PrefersTheLowestRunThatHoldsAll) {
  BlockAllocator allocator(20);
  Blocks a, b, c, d;
  allocator.Allocate(1, &a);  // 0
  allocator.Allocate(1, &b);  // 1
  allocator.Allocate(3, &c);  // 2 3 4
  allocator.Allocate(1, &d);  // 5
  allocator.Release(&a);
  allocator.Release(&c);
  Blocks e;
  allocator.Allocate(3, &e);
  EXPECT_EQ(e, (Blocks{2, 3, 4}));
  EXPECT_EQ(allocator.high_water(), 6);
}

TEST(BlockAllocatorTest, TakesTheLowestRunsWhenNoneHoldsAll) {
  BlockAllocator allocator(130);
  std::vector<Blocks> ones(130);
  for (Blocks& one : ones) allocator.Allocate(1, &one);
  for (int32_t i : {3, 64, 65, 129}) allocator.Release(&ones[i]);
  Blocks a;
  allocator.Allocate(4, &a);
  EXPECT_EQ(a, (Blocks{3, 64, 65, 129}));
  EXPECT_EQ(allocator.free(), 0);
}

TEST(BlockAllocatorTest, ReleaseKeepsThePrefix) {
  BlockAllocator allocator(8);
  Blocks a;
  allocator.Allocate(8, &a);
  allocator.Release(&a, 8);
  EXPECT_EQ(allocator.free(), 0);
  allocator.Release(&a, 3);
  EXPECT_EQ(a, (Blocks{0, 1, 2}));
  EXPECT_EQ(allocator.free(), 5);
  EXPECT_EQ(allocator.high_water(), 8);  // it never falls
}

TEST(BlockAllocatorTest, EmptyPool) {
  BlockAllocator allocator(0);
  Blocks a;
  allocator.Allocate(0, &a);
  EXPECT_TRUE(a.empty());
  EXPECT_EQ(allocator.free(), 0);
}

TEST(BlockAllocatorDeathTest, AbortsOnBrokenInvariants) {
  BlockAllocator allocator(64);
  Blocks a;
  allocator.Allocate(2, &a);
  EXPECT_DEATH(allocator.Allocate(63, &a), "invariant broken");
  Blocks twice = a;
  allocator.Release(&a);
  EXPECT_DEATH(allocator.Release(&twice), "invariant broken");
  Blocks outside = {64};
  EXPECT_DEATH(allocator.Release(&outside), "invariant broken");
}

// Against a plain set of free ids: the same blocks are handed out, none twice, all come back.
TEST(BlockAllocatorTest, RandomTracesMatchAPlainSet) {
  for (int32_t total : {1, 7, 63, 64, 65, 128, 1000}) {
    std::mt19937 rng(total);
    BlockAllocator allocator(total);
    std::set<int32_t> free;
    for (int32_t i = 0; i < total; ++i) free.insert(free.end(), i);
    std::vector<Blocks> tables(8), expected(8);
    int32_t high_water = 0;
    for (int step = 0; step < 5000; ++step) {
      const size_t i = rng() % tables.size();
      if (rng() % 2 == 0) {
        int32_t count = std::min<int32_t>(allocator.free(), rng() % (total / 4 + 2));
        allocator.Allocate(count, &tables[i]);
        Blocks& e = expected[i];
        while (count > 0 && !e.empty() && free.erase(e.back() + 1)) {
          e.push_back(e.back() + 1);
          --count;
        }
        auto starts_run = [&](int32_t b) {
          for (int32_t k = 0; k < count; ++k) {
            if (!free.count(b + k)) return false;
          }
          return true;
        };
        auto run = std::find_if(free.begin(), free.end(), starts_run);
        int32_t next = run == free.end() ? -1 : *run;
        for (; count > 0; --count) {
          const int32_t b = next < 0 ? *free.begin() : next++;
          free.erase(b);
          e.push_back(b);
        }
        for (int32_t b : e) high_water = std::max(high_water, b + 1);
      } else {
        const int32_t keep = tables[i].empty() ? 0 : rng() % (tables[i].size() + 1);
        allocator.Release(&tables[i], keep);
        free.insert(expected[i].begin() + keep, expected[i].end());
        expected[i].resize(keep);
      }
      ASSERT_EQ(tables[i], expected[i]) << "total " << total << " step " << step;
      ASSERT_EQ(allocator.free(), static_cast<int32_t>(free.size()));
      ASSERT_EQ(allocator.high_water(), high_water);
    }
    for (Blocks& table : tables) allocator.Release(&table);
    EXPECT_EQ(allocator.free(), total);
    EXPECT_EQ(allocator.held(), 0);
  }
}

}  // namespace
}  // namespace hydrant::scheduler
