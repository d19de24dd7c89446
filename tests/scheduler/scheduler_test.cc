#include "scheduler/scheduler.h"

#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "tests/scheduler/scheduler_driver.h"

namespace hydrant::scheduler {
namespace {

constexpr int32_t kMax = std::numeric_limits<int32_t>::max();

std::vector<int32_t> Rows(const SchedulerOutput& out) {
  std::vector<int32_t> rows;
  for (const ScheduledSequence& s : out.scheduled) rows.push_back(s.num_tokens);
  return rows;
}

using Sequences = std::vector<Sequence*>;

// ---- What can never fit ----

TEST(CheckFitsTest, UnboundedNeedsItsWholeLength) {
  Scheduler scheduler(Options(4));
  // 64 slots; the last generated token takes none.
  EXPECT_TRUE(scheduler.CheckFits({.prompt_tokens = 60, .max_tokens = 5}).ok());
  const absl::Status status = scheduler.CheckFits({.prompt_tokens = 60, .max_tokens = 6});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(
      std::string(status.message()),
      "a prompt of 60 tokens with max_tokens 6 and no KV budget holds up to 5 KV blocks of 16 "
      "tokens; the pool has 4 (64 tokens)");
}

TEST(CheckFitsTest, BoundedNeedsItsPeak) {
  Scheduler scheduler(Options(4));
  Request request{.prompt_tokens = 64, .max_tokens = kMax, .budget = 16};
  EXPECT_TRUE(scheduler.CheckFits(request).ok());
  request.prompt_tokens = 65;
  const absl::Status status = scheduler.CheckFits(request);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(status.message()).find("KV budget of 16 tokens holds up to 5 KV blocks"),
            std::string::npos)
      << status;
  // The decode peak is budget + 1.
  EXPECT_TRUE(scheduler.CheckFits({.prompt_tokens = 1, .max_tokens = kMax, .budget = 63}).ok());
  EXPECT_FALSE(scheduler.CheckFits({.prompt_tokens = 1, .max_tokens = kMax, .budget = 64}).ok());
  EXPECT_FALSE(scheduler.CheckFits({.prompt_tokens = 1, .max_tokens = kMax, .budget = kMax}).ok());
  EXPECT_TRUE(scheduler.CheckFits({.prompt_tokens = 1, .max_tokens = 64, .budget = kMax}).ok());
}

TEST(CheckFitsTest, PerChunkNeedsBudgetAndOneChunk) {
  Scheduler scheduler(Options(4, 8, 32));
  Request request{.prompt_tokens = 100000,
                  .max_tokens = 10,
                  .budget = 32,
                  .prefill_eviction = PrefillEviction::kPerChunk};
  EXPECT_TRUE(scheduler.CheckFits(request).ok());
  request.budget = 33;
  EXPECT_FALSE(scheduler.CheckFits(request).ok());
}

TEST(CheckFitsTest, SenselessRequests) {
  Scheduler scheduler(Options(4));
  for (const Request& request :
       {Request{.prompt_tokens = 0}, Request{.prompt_tokens = -1},
        Request{.prompt_tokens = 1, .max_tokens = 0}, Request{.prompt_tokens = 1, .budget = 0},
        Request{.prompt_tokens = kMax, .max_tokens = kMax},
        Request{.prompt_tokens = kMax, .max_tokens = kMax, .budget = kMax}}) {
    EXPECT_EQ(scheduler.CheckFits(request).code(), absl::StatusCode::kInvalidArgument);
  }
}

// ---- Rows of a step ----

TEST(ScheduleTest, OneSequenceFromPromptToEnd) {
  Driver d(Options(4));
  Sequence* s = d.Add(20, 3);
  SchedulerOutput out = d.Step();
  EXPECT_EQ(out.admitted, Sequences{s});
  EXPECT_EQ(Rows(out), std::vector<int32_t>{20});
  EXPECT_TRUE(out.scheduled[0].samples);
  EXPECT_EQ(s->num_slots, 20);
  EXPECT_EQ(Rows(d.Step()), std::vector<int32_t>{1});
  EXPECT_EQ(s->status, SequenceStatus::kRunning);
  EXPECT_EQ(Rows(d.Step()), std::vector<int32_t>{1});
  EXPECT_EQ(s->status, SequenceStatus::kFinished);
  EXPECT_EQ(s->num_computed_tokens, 22);
  EXPECT_EQ(d.scheduler.blocks().free(), 4);
  EXPECT_TRUE(d.scheduler.Schedule().empty());
}

TEST(ScheduleTest, DecodesFirstThenChunksOfThePrompt) {
  Driver d(Options(100, 4, 8));
  Sequence* a = d.Add(4, 10);
  EXPECT_EQ(Rows(d.Step()), std::vector<int32_t>{4});
  Sequence* b = d.Add(20, 10, std::nullopt, /*priority=*/1);  // ranks before a
  for (int32_t chunk : {7, 7, 6}) {
    SchedulerOutput out = d.Step();
    EXPECT_EQ(Rows(out), (std::vector<int32_t>{1, chunk}));
    EXPECT_EQ(out.scheduled[0].sequence, a);
    EXPECT_TRUE(out.scheduled[0].samples);
    EXPECT_EQ(out.scheduled[1].sequence, b);
    EXPECT_EQ(out.scheduled[1].samples, chunk == 6);
    EXPECT_EQ(out.num_tokens, 1 + chunk);
  }
  EXPECT_EQ(d.Step().scheduled[0].sequence, b);  // both decode now
}

TEST(ScheduleTest, FillsAStepWithSeveralPrompts) {
  Driver d(Options(100, 8, 16));
  for (int32_t prompt : {5, 5, 20, 1}) d.Add(prompt, 2);
  EXPECT_EQ(Rows(d.Step()), (std::vector<int32_t>{5, 5, 6}));
  EXPECT_EQ(Rows(d.Step()), (std::vector<int32_t>{1, 1, 14}));
  EXPECT_EQ(Rows(d.Step()), (std::vector<int32_t>{1, 1}));
}

TEST(ScheduleTest, NeverMoreThanMaxNumSeqs) {
  Driver d(Options(100, 2, 64));
  for (int i = 0; i < 5; ++i) d.Add(3, 2);
  EXPECT_EQ(d.Step().scheduled.size(), 2u);
  EXPECT_EQ(d.scheduler.num_running(), 2);
  EXPECT_EQ(d.scheduler.num_waiting(), 3);
  d.Step();  // both end
  EXPECT_EQ(d.Step().admitted.size(), 2u);
  EXPECT_TRUE(d.Drain());
}

// ---- Admission ----

TEST(AdmitTest, ByPriorityThenArrival) {
  Driver d(Options(100));
  Sequence* a = d.Add(1, 1, std::nullopt, 0);
  Sequence* b = d.Add(1, 1, std::nullopt, 2);
  Sequence* c = d.Add(1, 1, std::nullopt, 0);
  Sequence* e = d.Add(1, 1, std::nullopt, 2);
  Sequence* f = d.Add(1, 1, std::nullopt, -1);
  EXPECT_EQ(d.Step().admitted, (Sequences{b, e, a, c, f}));
}

TEST(AdmitTest, NobodyOvertakes) {
  Driver d(Options(4));
  d.Add(30, 20, 48);                   // reserves 4 - 1 = 3 blocks
  Sequence* large = d.Add(40, 1, 64);  // needs 3
  Sequence* small = d.Add(1, 1, 64);   // 1 is free, and it waits
  EXPECT_EQ(d.Step().admitted.size(), 1u);
  EXPECT_EQ(d.scheduler.num_waiting(), 2);
  while (large->status == SequenceStatus::kWaiting) {
    EXPECT_EQ(small->status, SequenceStatus::kWaiting);
    ASSERT_FALSE(d.Step().empty());
  }
  EXPECT_TRUE(d.Drain());
}

TEST(AdmitTest, CompactionAdmitsTheNextInTheFollowingStep) {
  Driver d(Options(5));
  Sequence* a = d.Add(48, 100, 16);  // 3 blocks for the prompt, then ceil(17 / 16) = 2
  Sequence* b = d.Add(48, 100, 16);
  EXPECT_EQ(d.Step().admitted, Sequences{a});
  EXPECT_EQ(a->num_slots, 16);
  EXPECT_EQ(a->reserved_blocks, 2);
  EXPECT_EQ(a->blocks.size(), 2u);
  EXPECT_EQ(d.freed, 1);
  EXPECT_EQ(d.Step().admitted, Sequences{b});
  EXPECT_TRUE(d.Drain());
  EXPECT_EQ(a->preemptions + b->preemptions, 0);
}

TEST(AdmitTest, ReservesThePeakAtOnce) {
  Driver d(Options(4));
  Sequence* a = d.Add(1, 1000, 40);  // decode peak 41 slots: 3 blocks
  Sequence* b = d.Add(1, 1000, 16);  // 2 blocks
  d.Step();
  EXPECT_EQ(a->reserved_blocks, 3);
  EXPECT_EQ(b->status, SequenceStatus::kWaiting);
  EXPECT_LT(d.scheduler.blocks().held(), 3);  // taken as it grows
  d.scheduler.Finish(a);
  EXPECT_EQ(d.Step().admitted, Sequences{b});
}

TEST(AdmitTest, ABudgetThatCoversTheLengthReservesTheLength) {
  Driver d(Options(4));
  Sequence* a = d.Add(10, 23, 1000);  // 32 slots
  d.Step();
  EXPECT_EQ(a->reserved_blocks, 2);
  EXPECT_TRUE(d.Drain());
  EXPECT_EQ(d.freed, 0);
}

TEST(AdmitTest, PerChunkHoldsBudgetAndOneChunk) {
  Driver d(Options(100, 4, 32));
  Sequence* s = d.Add(Request{.prompt_tokens = 200,
                              .max_tokens = 50,
                              .budget = 20,
                              .prefill_eviction = PrefillEviction::kPerChunk});
  const Sequence* other = d.Add(1, 100, std::nullopt, 1);  // its decodes shorten the chunks
  while (s->status != SequenceStatus::kFinished) {
    ASSERT_FALSE(d.Step().empty());
    EXPECT_LE(s->num_slots, s->in_decode() ? 21 : 20 + 32);
    EXPECT_LE(s->blocks.size(), s->in_decode() ? 2u : 4u);  // BlocksFor(20 + 32)
  }
  EXPECT_EQ(other->preemptions, 0);
  EXPECT_TRUE(d.Drain());
}

// What is evicted must not depend on how a prompt's tokens are spread over steps.
TEST(AdmitTest, PerChunkCompactsAtMultiplesOfItsSpan) {
  SchedulerOptions options = Options(100, 4, 24);
  options.per_chunk_tokens = 40;
  Driver d(options);
  d.Add(1, 100, std::nullopt, 1);
  Sequence* s = d.Add(Request{.prompt_tokens = 130,
                              .max_tokens = 1,
                              .budget = 20,
                              .prefill_eviction = PrefillEviction::kPerChunk});
  std::vector<int32_t> compacted;
  while (s->status != SequenceStatus::kFinished) {
    for (const ScheduledSequence& scheduled : d.Step().scheduled) {
      if (scheduled.sequence == s && scheduled.compacts) {
        compacted.push_back(s->num_computed_tokens);
      }
    }
  }
  EXPECT_EQ(compacted, (std::vector<int32_t>{40, 80, 120, 130}));
}

TEST(PaceTest, APromptBesideDecodesGetsTheTimeOfOneAndAHalfOfTheirSteps) {
  Driver d(Options(100, 8, 64));
  for (int i = 0; i < 5; ++i) d.Add(1, 100);
  EXPECT_EQ(d.Step(10).num_tokens, 5) << "nothing decodes: no limit";
  d.Add(200, 1);
  EXPECT_EQ(d.Step(20).num_tokens, 5 + 30);
  EXPECT_EQ(d.Step(1).num_tokens, 5 + 16) << "never so little that a step is not worth it";
  EXPECT_EQ(d.Step(1000).num_tokens, 64);
  EXPECT_EQ(d.Step().num_tokens, 64);
}

TEST(PaceTest, ACrowdOfPromptsIsNotHeldUp) {
  Driver d(Options(100, 16, 64));
  for (int i = 0; i < 9; ++i) d.Add(1, 100);
  d.Step(10);
  d.Add(120, 1);
  d.Add(120, 1);
  EXPECT_EQ(d.Step(20).num_tokens, 9 + 30) << "2 of 11";
  d.Add(120, 1);
  EXPECT_EQ(d.Step(20).num_tokens, 64) << "3 of 12, whether they run or wait";
}

TEST(PaceTest, ShortPromptsAreNotCutAndPassALongOneThatRuns) {
  Driver d(Options(100, 32, 64));
  for (int i = 0; i < 20; ++i) d.Add(1, 100);
  d.Step(10);
  const Sequence* first = d.Add(200, 1);
  d.Step(10);
  const Sequence* next = d.Add(25, 2);
  d.Step(10);
  EXPECT_EQ(first->num_computed_tokens, 2 * 16);
  EXPECT_TRUE(next->in_decode());
}

TEST(AdmitTest, LeavesRunningUnboundedSequencesABlockEach) {
  Driver d(Options(4));
  Sequence* a = d.Add(10, 40);       // unbounded, 1 block
  Sequence* b = d.Add(40, 1, 1000);  // bounded, 3 blocks: nothing would be left for a
  EXPECT_EQ(d.Step().admitted, Sequences{a});
  EXPECT_TRUE(d.Drain());
  EXPECT_EQ(a->preemptions, 0);
  EXPECT_EQ(b->status, SequenceStatus::kFinished);
}

// ---- Slots of an evicting sequence ----

TEST(EvictedTest, TheNextTokenGoesIntoTheHole) {
  Driver d(Options(4));
  Sequence* s = d.Add(14, 40, 16);
  d.scheduler.Commit(d.scheduler.Schedule());
  EXPECT_EQ(s->num_slots, 14);
  for (int32_t slots : {15, 16, 17}) {
    ++s->num_tokens;
    d.scheduler.Commit(d.scheduler.Schedule());
    EXPECT_EQ(s->num_slots, slots);
  }
  const std::vector<int32_t> blocks = s->blocks;
  EXPECT_EQ(blocks.size(), 2u);
  for (int i = 0; i < 20; ++i) {
    d.scheduler.Evicted(s);
    EXPECT_EQ(s->num_slots, 16);
    ++s->num_tokens;
    d.scheduler.Commit(d.scheduler.Schedule());
    EXPECT_EQ(s->num_slots, 17);
    EXPECT_EQ(s->blocks, blocks);
  }
  EXPECT_EQ(s->num_computed_tokens, 37);
  EXPECT_DEATH(
      {
        d.scheduler.Evicted(s);
        d.scheduler.Evicted(s);
      },
      "invariant broken");
}

// ---- Preemption ----

TEST(PreemptTest, LastInIsFirstOut) {
  Driver d(Options(4));
  Sequence* a = d.Add(16, 32);
  Sequence* b = d.Add(16, 32);
  SchedulerOutput out = d.Step();
  EXPECT_EQ(out.admitted, (Sequences{a, b}));
  out = d.Step();  // each takes its second block: none is left
  EXPECT_TRUE(out.preempted.empty());
  do {
    out = d.Step();
  } while (out.preempted.empty());
  EXPECT_EQ(out.preempted, Sequences{b});
  EXPECT_EQ(a->num_slots, 33);
  EXPECT_EQ(b->status, SequenceStatus::kWaiting);
  EXPECT_EQ(b->num_computed_tokens, 0);
  EXPECT_EQ(b->num_slots, 0);
  EXPECT_EQ(b->num_tokens, 33);  // what it generated is not lost
  EXPECT_TRUE(b->blocks.empty());
  EXPECT_EQ(b->preemptions, 1);
  EXPECT_TRUE(d.Drain());
  EXPECT_EQ(a->preemptions, 0);
  EXPECT_EQ(b->num_computed_tokens, 47);
}

TEST(PreemptTest, ThePreemptedRecomputesEverythingAndReturnsToItsPlace) {
  Driver d(Options(5, 8, 8));
  Sequence* a = d.Add(16, 40);
  Sequence* b = d.Add(16, 40);
  d.Add(30, 4, 40);  // bounded, behind b
  while (b->preemptions == 0) ASSERT_FALSE(d.Step().empty());
  const int32_t tokens = b->num_tokens;
  while (a->status == SequenceStatus::kRunning) d.Step();
  SchedulerOutput out = d.Step();
  ASSERT_FALSE(out.admitted.empty());
  EXPECT_EQ(out.admitted[0], b);  // before the bounded one
  EXPECT_EQ(b->num_computed_tokens, 8);
  EXPECT_FALSE(out.scheduled[0].samples);
  while (b->num_computed_tokens < tokens) {
    EXPECT_EQ(b->num_tokens, tokens);  // no token is sampled twice
    d.Step();
  }
  EXPECT_EQ(b->num_tokens, tokens + 1);
  EXPECT_TRUE(d.Drain());
}

TEST(PreemptTest, LowestPriorityGoesFirst) {
  Driver d(Options(4));
  Sequence* low = d.Add(16, 32, std::nullopt, -1);
  Sequence* high = d.Add(16, 32, std::nullopt, 1);
  while (low->preemptions == 0) ASSERT_FALSE(d.Step().empty());
  EXPECT_EQ(high->status, SequenceStatus::kRunning);
  EXPECT_TRUE(d.Drain());
  EXPECT_EQ(high->preemptions, 0);
}

TEST(PreemptTest, NeverGrowsIntoAReservationButPreemptsItself) {
  Driver d(Options(4));
  Sequence* bounded = d.Add(1, 40, 40);  // reserves 3 blocks and holds one
  Sequence* unbounded = d.Add(10, 30);
  d.Step();
  EXPECT_EQ(unbounded->status, SequenceStatus::kRunning);
  while (unbounded->preemptions == 0) ASSERT_FALSE(d.Step().empty());
  EXPECT_GT(d.scheduler.blocks().free(), 0);
  EXPECT_EQ(unbounded->num_tokens, 17);
  EXPECT_TRUE(d.Drain());
  EXPECT_EQ(bounded->preemptions, 0);
  EXPECT_EQ(Driver::generated(unbounded), 30);
}

TEST(PreemptTest, ALoneSequenceFillsThePoolToTheLastSlot) {
  Driver d(Options(4, 8, 16));
  Sequence* s = d.Add(33, 32);
  EXPECT_TRUE(d.Drain());
  EXPECT_EQ(s->num_computed_tokens, 64);
  EXPECT_EQ(s->preemptions, 0);
}

TEST(PreemptTest, MidPrefillVictimsStartAgain) {
  Driver d(Options(4, 2, 2));  // the prompt of b takes a row a step beside the decodes of a
  Sequence* a = d.Add(15, 40, std::nullopt, 1);
  while (!a->in_decode()) d.Step();
  Sequence* b = d.Add(32, 1);
  while (b->preemptions == 0) {
    ASSERT_FALSE(d.Step().empty());
    ASSERT_FALSE(b->in_decode());
  }
  EXPECT_TRUE(d.Drain());
  EXPECT_EQ(a->preemptions, 0);
  EXPECT_EQ(b->num_computed_tokens, 32);
}

// ---- Ends ----

TEST(FinishTest, InEveryState) {
  Driver d(Options(4, 1, 16));
  Sequence* running = d.Add(40, 4);
  Sequence* waiting = d.Add(40, 4);
  d.Step();
  d.scheduler.Finish(waiting);
  EXPECT_EQ(d.scheduler.num_waiting(), 0);
  SchedulerOutput out = d.scheduler.Schedule();
  d.scheduler.Finish(running);  // in the middle of a step
  EXPECT_EQ(d.scheduler.blocks().free(), 4);
  d.scheduler.Commit(out);
  EXPECT_EQ(running->num_computed_tokens, 16);
  d.scheduler.Finish(running);
  EXPECT_EQ(running->status, SequenceStatus::kFinished);
  EXPECT_EQ(d.scheduler.num_running(), 0);
  EXPECT_TRUE(d.scheduler.Schedule().empty());
  d.scheduler.CheckInvariants();
}

TEST(SchedulerDeathTest, AbortsOnBrokenContracts) {
  EXPECT_DEATH(Scheduler(Options(4, 65, 64)), "invariant broken");
  Driver d(Options(4));
  Sequence* s = d.Add(4, 4);
  EXPECT_DEATH(d.scheduler.Add(s), "invariant broken");  // waits already
  d.scheduler.Commit(d.scheduler.Schedule());
  EXPECT_DEATH(d.scheduler.Schedule(), "invariant broken");    // nothing was sampled
  EXPECT_DEATH(d.scheduler.Compacted(s), "invariant broken");  // it has no budget
  EXPECT_DEATH(d.scheduler.Evicted(s), "invariant broken");
}

}  // namespace
}  // namespace hydrant::scheduler
