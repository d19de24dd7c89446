// Random traces of arrivals, cancels, priorities, policies and pools: what the scheduler promises
// holds after every step, and everything ends.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "scheduler/scheduler.h"
#include "tests/scheduler/scheduler_driver.h"

namespace hydrant::scheduler {
namespace {

using Sequences = std::vector<Sequence*>;

// The peak by the words of the contract, written down a second time.
int64_t NaivePeak(const Request& r, int32_t span) {
  const int64_t length = int64_t{r.prompt_tokens} + r.max_tokens - 1;
  if (!r.budget) return BlocksFor(length);
  int64_t peak = r.prompt_tokens;
  if (r.prefill_eviction == PrefillEviction::kPerChunk) {
    peak = std::min<int64_t>(peak, int64_t{*r.budget} + span);
  }
  return BlocksFor(std::max(peak, std::min<int64_t>(length, int64_t{*r.budget} + 1)));
}

bool RanksBefore(const Sequence* a, const Sequence* b) {
  if (a->request.priority != b->request.priority) {
    return a->request.priority > b->request.priority;
  }
  return a->request.arrival < b->request.arrival;
}

struct TraceParams {
  uint32_t seed;
  int unbounded_percent;
  int cancel_permille;
};

class TraceTest : public testing::TestWithParam<TraceParams> {
 protected:
  void Run(const SchedulerOptions& options, std::mt19937* rng);
};

void TraceTest::Run(const SchedulerOptions& options, std::mt19937* rng) {
  auto pick = [&](int32_t lo, int32_t hi) {
    return std::uniform_int_distribution<int32_t>(lo, hi)(*rng);
  };
  Driver d(options);
  const int32_t pool = options.num_blocks * kBlockSlots;
  int steps = 0;
  const int arrivals_until = 150;
  while (steps < arrivals_until || d.scheduler.num_running() + d.scheduler.num_waiting() > 0) {
    ASSERT_LT(++steps, 50000) << "it does not end";
    while (steps < arrivals_until && pick(0, 2) == 0) {
      Request request{.arrival = static_cast<int64_t>(d.sequences.size()),
                      .priority = pick(0, 3) == 0 ? pick(-1, 1) : 0,
                      .prompt_tokens = pick(1, pick(0, 1) ? pool : 40),
                      .max_tokens = pick(1, pick(0, 1) ? pool : 20)};
      if (pick(0, 99) >= GetParam().unbounded_percent) request.budget = pick(1, pool / 2 + 1);
      if (pick(0, 1)) request.prefill_eviction = PrefillEviction::kPerChunk;
      const bool fits = NaivePeak(request, options.per_chunk_tokens) <= options.num_blocks;
      ASSERT_EQ(d.scheduler.CheckFits(request).ok(), fits);
      if (fits) d.Add(request);
    }
    for (auto& s : d.sequences) {
      if (s->status != SequenceStatus::kFinished && pick(0, 999) < GetParam().cancel_permille) {
        d.scheduler.Finish(s.get());
      }
    }

    Sequences decoding;
    for (auto& s : d.sequences) {
      if (s->status != SequenceStatus::kRunning) continue;
      if (s->in_decode() && s->num_pending_tokens() == 1) decoding.push_back(s.get());
    }
    const bool idle = d.scheduler.num_running() + d.scheduler.num_waiting() == 0;
    const int32_t decode_worth = pick(0, 1) ? Scheduler::kUnlimited : pick(1, 100);
    const SchedulerOutput out = d.scheduler.Schedule(decode_worth);
    ASSERT_EQ(out.empty(), idle);

    // Rows: within the limits, decodes first, each sequence once; every decode that was not
    // preempted advanced.
    int32_t rows = 0;
    Sequences once;
    for (const ScheduledSequence& s : out.scheduled) {
      rows += s.num_tokens;
      once.push_back(s.sequence);
    }
    ASSERT_EQ(rows, out.num_tokens);
    ASSERT_LE(rows, options.max_batched_tokens);
    std::sort(once.begin(), once.end());
    ASSERT_EQ(std::adjacent_find(once.begin(), once.end()), once.end());
    size_t decodes = 0;
    for (Sequence* s : decoding) {
      const bool preempted = std::count(out.preempted.begin(), out.preempted.end(), s) > 0;
      const bool scheduled = std::binary_search(once.begin(), once.end(), s);
      ASSERT_NE(preempted, scheduled);
      decodes += scheduled;
    }
    for (size_t i = 0; i < decodes; ++i) {
      ASSERT_TRUE(std::count(decoding.begin(), decoding.end(), out.scheduled[i].sequence));
      ASSERT_TRUE(out.scheduled[i].samples);
    }

    // Order: whoever was admitted ranks before all who wait; a victim ranks after all unbounded
    // ones that stayed.
    int64_t used = 0;
    const Sequence* first = nullptr;
    int unbounded_running = 0;
    for (auto& s : d.sequences) {
      if (s->status == SequenceStatus::kWaiting) {
        for (Sequence* a : out.admitted) ASSERT_TRUE(RanksBefore(a, s.get()));
        if (first == nullptr || RanksBefore(s.get(), first)) first = s.get();
      } else if (s->status == SequenceStatus::kRunning) {
        const bool bounded = s->request.budget.has_value();
        used += bounded ? s->reserved_blocks : s->blocks.size();
        unbounded_running += !bounded;
        if (!bounded) {
          for (Sequence* p : out.preempted) ASSERT_TRUE(RanksBefore(s.get(), p));
        }
      }
    }
    // The pool is never promised twice.
    ASSERT_LE(used, options.num_blocks);

    // Work conserving: the first of the queue waits only for want of a place, rows or blocks.
    if (first != nullptr && rows < options.max_batched_tokens &&
        decode_worth == Scheduler::kUnlimited && d.scheduler.num_running() < options.max_num_seqs) {
      const int64_t needed = first->request.budget
                                 ? NaivePeak(first->request, options.max_batched_tokens)
                                 : BlocksFor(first->num_tokens);
      ASSERT_GT(used + needed + unbounded_running, options.num_blocks);
    }

    // What bounded ones hold is what they were admitted with; after the prompt budget + 1 slots.
    d.Apply(out);
    for (auto& s : d.sequences) {
      const Request& r = s->request;
      const int64_t blocks = static_cast<int64_t>(s->blocks.size());
      ASSERT_LE(blocks, NaivePeak(r, options.max_batched_tokens));
      if (!r.budget) continue;
      ASSERT_EQ(s->preemptions, 0);
      if (s->status == SequenceStatus::kRunning && s->in_decode() && r.evicts()) {
        ASSERT_LE(s->num_slots, *r.budget);
        if (r.prompt_tokens > *r.budget) {
          ASSERT_EQ(s->reserved_blocks, BlocksFor(int64_t{*r.budget} + 1));
        }
      }
    }
  }
  EXPECT_EQ(d.scheduler.blocks().free(), options.num_blocks);
  for (auto& s : d.sequences) {
    ASSERT_EQ(s->status, SequenceStatus::kFinished);
    ASSERT_TRUE(s->blocks.empty());
    if (GetParam().cancel_permille == 0) {
      ASSERT_EQ(Driver::generated(s.get()), s->request.max_tokens);
    }
  }
}

TEST_P(TraceTest, KeepsEveryPromise) {
  std::mt19937 rng(GetParam().seed);
  for (int round = 0; round < 12; ++round) {
    SCOPED_TRACE(round);
    const int32_t max_num_seqs = 1 + rng() % 12;
    const int32_t num_blocks = rng() % 3 == 0 ? 1 + rng() % 4 : 1 + rng() % 60;
    ASSERT_NO_FATAL_FAILURE(
        Run(Options(num_blocks, max_num_seqs, max_num_seqs + rng() % 80), &rng));
  }
}

INSTANTIATE_TEST_SUITE_P(Mixes, TraceTest,
                         testing::Values(TraceParams{1, 0, 0}, TraceParams{2, 0, 20},
                                         TraceParams{3, 100, 0}, TraceParams{4, 100, 20},
                                         TraceParams{5, 50, 0}, TraceParams{6, 50, 20},
                                         TraceParams{7, 20, 0}, TraceParams{8, 80, 2}),
                         [](const auto& info) {
                           return std::to_string(info.param.unbounded_percent) +
                                  "PercentUnbounded" + std::to_string(info.param.cancel_permille) +
                                  "PermilleCancelled";
                         });

}  // namespace
}  // namespace hydrant::scheduler
