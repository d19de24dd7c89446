// Continuous batching with chunked prefill, and admission that counts blocks. Pure logic: no model,
// no kernel, no clock. Not thread-safe: the engine thread owns it.
//
// A step is
//   SchedulerOutput out = scheduler.Schedule();
//   ... run the model over out ...
//   scheduler.Commit(out);                  // counts advance by what was computed
//   scheduler.Compacted(seq)                // for each sequence the engine compacted to its budget
//   scheduler.Finish(seq)                   // for each that ended: blocks return at once
//
// Rules (see DESIGN: Scheduler):
// - Decode tokens of running sequences first, one each, then prefill chunks of running sequences,
//   then admission, until max_batched_tokens. Never more than max_num_seqs running. Within each of
//   the three: by priority (higher first), then arrival.
// - A long prompt, one of more than max_batched_tokens, must not hold up those who decode: beside
//   them long prompts get together as many tokens as take the time of kPromptShare decode steps,
//   and shorter ones may have the rest of the step. Small chunks cost more a token, so shorter
//   prompts are not cut for it, nor are long ones where there is a prompt for every kCrowd
//   sequences that decode: more requests would wait for that than for the prompts.
// - A preempted sequence keeps its arrival and so returns to its place. Admission stops at the
//   first that does not fit (no overtaking, so nothing starves).
// - A bounded request (request.budget set) reserves its peak at admission: max(prompt blocks until
//   compaction, decode peak BlocksFor(min(prompt + max_tokens - 1, budget + 1))), and only the
//   latter once compacted. The sum of all bounded reservations and of the blocks unbounded ones
//   hold never exceeds the pool, so a running bounded sequence is never preempted. With kPerChunk
//   the prompt's peak is budget + per_chunk_tokens slots at most: it is compacted at multiples of
//   that many tokens of its prompt, however these are spread over steps, so that what is evicted
//   does not depend on who else runs.
// - A request whose budget covers its whole length is bounded too: its peak is its length.
// - An unbounded request is admitted when the blocks of its pending tokens fit, grows a block at a
//   time, and when none is left the unbounded sequence that is last in (lowest priority, then
//   latest arrival) is preempted: its blocks return, its counts go back to 0, and it waits to be
//   recomputed. A sequence may preempt itself.
// - While unbounded sequences run, any admission leaves them one free block each, or what it took
//   would be preempted (or would preempt) within a few steps.
// - The blocks of a prompt are taken when it is admitted, so they are contiguous where the pool is,
//   and only a decode token can run out of blocks.

#ifndef HYDRANT_SCHEDULER_SCHEDULER_H_
#define HYDRANT_SCHEDULER_SCHEDULER_H_

#include <cstdint>
#include <limits>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "scheduler/block_allocator.h"
#include "scheduler/request.h"
#include "scheduler/sequence.h"

namespace hydrant::scheduler {

struct SchedulerOptions {
  int32_t num_blocks = 0;
  int32_t max_num_seqs = 256;
  int32_t max_batched_tokens = 512;  // rows of a step at the most, >= max_num_seqs
  int32_t per_chunk_tokens = 512;    // kPerChunk compacts after every so many prompt tokens
};

struct ScheduledSequence {
  Sequence* sequence = nullptr;
  int32_t num_tokens = 0;  // rows of this step: 1 in decode, a chunk in prefill
  bool samples = false;    // the last row is the newest token: its logits give the next one
  bool compacts = false;   // if it holds more than its budget then: the prompt, or a span of it
                           // under kPerChunk, is computed
};

struct SchedulerOutput {
  std::vector<ScheduledSequence> scheduled;  // decodes first
  std::vector<Sequence*> preempted;          // in this step; they are waiting again
  std::vector<Sequence*> admitted;           // in this step, for the first time or again
  int32_t num_tokens = 0;                    // sum over scheduled

  bool empty() const { return scheduled.empty(); }
};

class Scheduler {
 public:
  static constexpr int32_t kUnlimited = std::numeric_limits<int32_t>::max();
  static constexpr double kPromptShare = 1.5;
  static constexpr int32_t kCrowd = 4;

  explicit Scheduler(const SchedulerOptions& options);

  // OK, or INVALID_ARGUMENT saying which limit a request of this shape can never meet. Safe from
  // any thread: it reads only what is fixed at construction.
  absl::Status CheckFits(const Request& request) const;

  // Queues a sequence; how many may wait is the caller's matter. The caller has passed CheckFits,
  // and no two sequences share an arrival.
  void Add(Sequence* sequence);

  // The next step; empty when nothing waits that could run. `decode_worth`: how many prompt tokens
  // take as long as a step of decodes alone. Valid until the next call: the output's vectors are
  // reused, so that a step in steady state allocates nothing. O(running + what can be admitted).
  const SchedulerOutput& Schedule(int32_t decode_worth = kUnlimited);
  // Skips those that were finished since Schedule.
  void Commit(const SchedulerOutput& output);
  // The engine compacted `sequence` to its budget: num_slots falls to it, the reservation shrinks
  // to the decode peak (under kPerChunk, while spans are to come, to budget + the longest of them)
  // and the blocks beyond it return at once. Returns the number of blocks freed.
  int32_t Compacted(Sequence* sequence);
  // The engine evicted one slot of `sequence` after a decode step: num_slots falls by one, the
  // block stays (its hole is where the next token goes).
  void Evicted(Sequence* sequence);
  // Ends a sequence in any state (finished, cancelled, deadline): its blocks return at once. Once
  // ended, again does nothing.
  void Finish(Sequence* sequence);

  int32_t num_waiting() const { return static_cast<int32_t>(waiting_.size()); }
  // Tokens that those which wait have to compute.
  int64_t waiting_tokens() const { return waiting_tokens_; }
  int32_t num_running() const { return static_cast<int32_t>(running_.size()); }
  const BlockAllocator& blocks() const { return allocator_; }
  // Aborts unless free + held = total, no block is held twice, and every running sequence's blocks
  // cover its slots. O(blocks); for tests and idle moments.
  void CheckInvariants() const;

 private:
  // Who is served first; the last in this order is the first to be preempted.
  struct ServedBefore {
    bool operator()(const Sequence* a, const Sequence* b) const {
      if (a->request.priority != b->request.priority) {
        return a->request.priority > b->request.priority;
      }
      return a->request.arrival < b->request.arrival;
    }
  };

  void Enqueue(Sequence* sequence);
  void Dequeue(Sequence* sequence);
  // Blocks a bounded request holds at the most from here on, `computed` of its tokens being done.
  int64_t PeakBlocks(const Request& request, int32_t computed) const;
  // Blocks that are neither reserved by a bounded sequence nor held by an unbounded one.
  int32_t Available() const { return allocator_.total() - reserved_ - unbounded_held_; }

  // What admitting it would reserve or take.
  int64_t BlocksToAdmit(const Sequence& sequence) const;
  // Prompts that are running or could be admitted now.
  int32_t CountPrompts() const;
  // Rows that long prompts may have in this step beside its decodes.
  int32_t LongPromptRows(int32_t decode_worth) const;
  bool IsLong(const Sequence& sequence) const {
    return sequence.num_tokens > options_.max_batched_tokens;
  }
  // Rows that `sequence`, which is not in steady decode, may have in this step.
  int32_t ChunkRows(const Sequence& sequence) const;

  void ScheduleDecodes();
  void SchedulePrefills();
  void Admit();
  void Append(Sequence* sequence, int32_t num_tokens);
  // A chunk of its pending tokens, of ChunkRows.
  void AppendChunk(Sequence* sequence, int32_t rows);
  // Makes room for one more slot; false when `sequence` itself had to be preempted for it.
  bool GrowForDecode(Sequence* sequence);
  void PreemptLastUnbounded();
  // Takes a running sequence's blocks and its place in running_.
  void Remove(Sequence* sequence);

  SchedulerOptions options_;
  BlockAllocator allocator_;
  std::set<Sequence*, ServedBefore> waiting_;
  int64_t waiting_tokens_ = 0;      // sum of their num_pending_tokens
  std::vector<Sequence*> running_;  // sorted by ServedBefore
  int32_t reserved_ = 0;            // sum of the running bounded sequences' reserved_blocks
  int32_t unbounded_held_ = 0;      // sum of the running unbounded sequences' blocks
  int32_t unbounded_running_ = 0;
  int32_t long_rows_ = 0;  // left to long prompts in this step
  SchedulerOutput output_;
};

}  // namespace hydrant::scheduler

#endif  // HYDRANT_SCHEDULER_SCHEDULER_H_
