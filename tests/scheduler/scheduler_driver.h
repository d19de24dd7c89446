// Drives a Scheduler as the engine does, without a model. For the tests of this folder.

#ifndef HYDRANT_TESTS_SCHEDULER_SCHEDULER_DRIVER_H_
#define HYDRANT_TESTS_SCHEDULER_SCHEDULER_DRIVER_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "scheduler/scheduler.h"

namespace hydrant::scheduler {

inline SchedulerOptions Options(int32_t num_blocks, int32_t max_num_seqs = 8,
                                int32_t max_batched = 64) {
  return {.num_blocks = num_blocks,
          .max_num_seqs = max_num_seqs,
          .max_batched_tokens = max_batched,
          .per_chunk_tokens = max_batched};
}

// Does with the scheduler what the engine does: computes, compacts, evicts, samples and ends.
class Driver {
 public:
  explicit Driver(const SchedulerOptions& options) : scheduler(options) {}

  Sequence* Add(Request request) {
    request.arrival = static_cast<int64_t>(sequences.size());
    EXPECT_TRUE(scheduler.CheckFits(request).ok()) << scheduler.CheckFits(request);
    sequences.push_back(std::make_unique<Sequence>(request));
    scheduler.Add(sequences.back().get());
    return sequences.back().get();
  }
  Sequence* Add(int32_t prompt, int32_t max_tokens, std::optional<int32_t> budget = std::nullopt,
                int32_t priority = 0) {
    return Add(Request{
        .priority = priority, .prompt_tokens = prompt, .max_tokens = max_tokens, .budget = budget});
  }

  SchedulerOutput Step(int32_t decode_worth = Scheduler::kUnlimited) {
    SchedulerOutput out = scheduler.Schedule(decode_worth);
    Apply(out);
    return out;
  }
  void Apply(const SchedulerOutput& out) {
    scheduler.CheckInvariants();
    scheduler.Commit(out);
    for (const ScheduledSequence& s : out.scheduled) {
      Sequence* sequence = s.sequence;
      const Request& request = sequence->request;
      if (request.evicts() && sequence->num_slots > *request.budget) {
        if (sequence->num_computed_tokens > request.prompt_tokens) {
          scheduler.Evicted(sequence);
        } else if (s.compacts) {
          freed += scheduler.Compacted(sequence);
        }
      }
      if (!s.samples) continue;
      ++sequence->num_tokens;
      if (generated(sequence) == request.max_tokens) scheduler.Finish(sequence);
    }
    scheduler.CheckInvariants();
  }
  // Steps until everything is done; false when a step runs nothing or there is no end.
  bool Drain(int max_steps = 100000) {
    for (int i = 0; i < max_steps; ++i) {
      if (scheduler.num_running() + scheduler.num_waiting() == 0) return true;
      if (Step().empty()) return false;
    }
    return false;
  }

  static int32_t generated(const Sequence* s) { return s->num_tokens - s->request.prompt_tokens; }

  Scheduler scheduler;
  std::vector<std::unique_ptr<Sequence>> sequences;
  int32_t freed = 0;  // blocks that Compacted returned
};

}  // namespace hydrant::scheduler

#endif  // HYDRANT_TESTS_SCHEDULER_SCHEDULER_DRIVER_H_
