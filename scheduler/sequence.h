// A request's mutable state in the scheduler. Owned by the engine, lent to the scheduler from Add
// to Finish. Only the engine thread touches it.
//
// Three counts, never confused:
//   num_tokens            prompt + generated, logical
//   num_computed_tokens   already fed to the model; the next token's position
//   num_slots             physically held; the attention length

#ifndef HYDRANT_SCHEDULER_SEQUENCE_H_
#define HYDRANT_SCHEDULER_SEQUENCE_H_

#include <cstdint>
#include <vector>

#include "scheduler/request.h"

namespace hydrant::scheduler {

enum class SequenceStatus { kWaiting, kRunning, kFinished };

struct Sequence {
  explicit Sequence(const Request& r) : request(r), num_tokens(r.prompt_tokens) {}

  const Request request;
  SequenceStatus status = SequenceStatus::kWaiting;

  int32_t num_tokens;               // the engine adds one for each sampled token
  int32_t num_computed_tokens = 0;  // advanced by Scheduler::Commit
  int32_t num_slots = 0;            // advanced by Commit, lowered by Compacted and Evicted
  std::vector<int32_t> blocks;      // cover num_slots and this step's rows, or more
  int32_t reserved_blocks = 0;      // bounded and running: `blocks` never grows beyond this
  int32_t preemptions = 0;

  bool bounded() const { return request.budget.has_value(); }
  // Tokens whose KV is missing: 1 in steady decode, more in prefill or after a preemption.
  int32_t num_pending_tokens() const { return num_tokens - num_computed_tokens; }
  // The prompt is computed. (A sequence that was preempted recomputes what it generated, too.)
  bool in_decode() const { return num_computed_tokens >= request.prompt_tokens; }
};

}  // namespace hydrant::scheduler

#endif  // HYDRANT_SCHEDULER_SEQUENCE_H_
