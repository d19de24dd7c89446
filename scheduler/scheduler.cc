#include "scheduler/scheduler.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "scheduler/check.h"

namespace hydrant::scheduler {
namespace {

// A bounded sequence takes its decode blocks by this many: they are reserved anyway, and a longer
// run is read faster. Not all at once, since most replies end before max_tokens.
constexpr int32_t kDecodeExtent = 4;

// The fewest prompt tokens of a step that has any: below it the step costs no less.
constexpr int32_t kMinPromptRows = 16;

}  // namespace

Scheduler::Scheduler(const SchedulerOptions& options)
    : options_(options), allocator_(options.num_blocks) {
  HYDRANT_CHECK(options_.max_num_seqs >= 1);
  HYDRANT_CHECK(options_.max_batched_tokens >= options_.max_num_seqs);
  HYDRANT_CHECK(options_.per_chunk_tokens >= 1);
  running_.reserve(options_.max_num_seqs);
  output_.scheduled.reserve(options_.max_num_seqs);
  output_.preempted.reserve(options_.max_num_seqs);
  output_.admitted.reserve(options_.max_num_seqs);
}

int64_t Scheduler::PeakBlocks(const Request& request, int32_t computed) const {
  const int64_t decode = std::min(request.max_total_tokens(), int64_t{*request.budget} + 1);
  const int64_t left = request.prompt_tokens - computed;
  if (left <= 0) return BlocksFor(decode);
  int64_t prefill = request.prompt_tokens;
  if (request.prefill_eviction == PrefillEviction::kPerChunk) {
    const int64_t span = std::min<int64_t>(left, options_.per_chunk_tokens);
    prefill = std::min(prefill, *request.budget + span);
  }
  return BlocksFor(std::max(prefill, decode));
}

absl::Status Scheduler::CheckFits(const Request& request) const {
  if (request.prompt_tokens < 1) {
    return absl::InvalidArgumentError("the prompt has no tokens; at least 1 is needed");
  }
  if (request.max_tokens < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_tokens is ", request.max_tokens, "; at least 1 is needed"));
  }
  if (request.budget.has_value() && *request.budget < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("the KV budget is ", *request.budget, " tokens; at least 1 is needed"));
  }
  const int64_t blocks =
      request.budget ? PeakBlocks(request, 0) : BlocksFor(request.max_total_tokens());
  if (blocks <= allocator_.total()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "a prompt of ", request.prompt_tokens, " tokens with max_tokens ", request.max_tokens,
      request.budget ? absl::StrCat(" and a KV budget of ", *request.budget, " tokens")
                     : " and no KV budget",
      " holds up to ", blocks, " KV blocks of ", kBlockSlots, " tokens; the pool has ",
      allocator_.total(), " (", int64_t{allocator_.total()} * kBlockSlots, " tokens)"));
}

void Scheduler::Add(Sequence* sequence) {
  HYDRANT_CHECK(sequence->status == SequenceStatus::kWaiting && sequence->blocks.empty());
  Enqueue(sequence);
}

void Scheduler::Enqueue(Sequence* sequence) {
  HYDRANT_CHECK(waiting_.insert(sequence).second);
  waiting_tokens_ += sequence->num_pending_tokens();
}

void Scheduler::Dequeue(Sequence* sequence) {
  HYDRANT_CHECK(waiting_.erase(sequence) == 1);
  waiting_tokens_ -= sequence->num_pending_tokens();
}

int64_t Scheduler::BlocksToAdmit(const Sequence& sequence) const {
  return sequence.bounded() ? PeakBlocks(sequence.request, 0) : BlocksFor(sequence.num_tokens);
}

int32_t Scheduler::CountPrompts() const {
  const auto decoding = [](const Sequence* s) {
    return s->in_decode() && s->num_pending_tokens() == 1;
  };
  int32_t prompts = num_running() -
                    static_cast<int32_t>(std::count_if(running_.begin(), running_.end(), decoding));
  int32_t seats = options_.max_num_seqs - num_running();
  int64_t available = Available() - unbounded_running_;
  for (const Sequence* sequence : waiting_) {
    available -= BlocksToAdmit(*sequence);
    if (available < 0 || seats-- == 0) break;
    ++prompts;
  }
  return prompts;
}

int32_t Scheduler::LongPromptRows(int32_t decode_worth) const {
  const int32_t room = options_.max_batched_tokens - output_.num_tokens;
  if (decode_worth == kUnlimited || kCrowd * CountPrompts() >= output_.num_tokens) return room;
  const double rows = kPromptShare * decode_worth;
  return static_cast<int32_t>(std::clamp<double>(rows, std::min(kMinPromptRows, room), room));
}

int32_t Scheduler::ChunkRows(const Sequence& sequence) const {
  // Each pass of a running sequence is preceded by a token that it sampled.
  HYDRANT_CHECK(sequence.num_pending_tokens() >= 1);
  int32_t rows =
      std::min(sequence.num_pending_tokens(), options_.max_batched_tokens - output_.num_tokens);
  if (IsLong(sequence)) rows = std::min(rows, long_rows_);
  if (sequence.request.prefill_eviction == PrefillEviction::kPerChunk && !sequence.in_decode()) {
    const int32_t span = options_.per_chunk_tokens;
    rows = std::min(rows, span - sequence.num_computed_tokens % span);
  }
  return rows;
}

const SchedulerOutput& Scheduler::Schedule(int32_t decode_worth) {
  output_.scheduled.clear();
  output_.preempted.clear();
  output_.admitted.clear();
  output_.num_tokens = 0;
  ScheduleDecodes();
  long_rows_ = LongPromptRows(decode_worth);
  SchedulePrefills();
  Admit();
  return output_;
}

void Scheduler::ScheduleDecodes() {
  // Served in order and preempted from the end: a victim was never scheduled in this step before.
  for (size_t i = 0; i < running_.size();) {
    Sequence* sequence = running_[i];
    if (sequence->in_decode() && sequence->num_pending_tokens() == 1) {
      if (!GrowForDecode(sequence)) continue;  // preempted: the next one has its index now
      Append(sequence, 1);
    }
    ++i;
  }
}

void Scheduler::SchedulePrefills() {
  for (Sequence* sequence : running_) {
    if (sequence->in_decode() && sequence->num_pending_tokens() == 1) continue;
    if (const int32_t rows = ChunkRows(*sequence); rows > 0) AppendChunk(sequence, rows);
  }
}

void Scheduler::Admit() {
  while (!waiting_.empty() && num_running() < options_.max_num_seqs) {
    Sequence* sequence = *waiting_.begin();
    const int32_t rows = ChunkRows(*sequence);
    if (rows == 0) return;
    const Request& request = sequence->request;
    const int64_t needed = BlocksToAdmit(*sequence);
    if (needed + unbounded_running_ > Available()) return;

    Dequeue(sequence);
    running_.insert(std::upper_bound(running_.begin(), running_.end(), sequence, ServedBefore()),
                    sequence);
    sequence->status = SequenceStatus::kRunning;
    const int32_t blocks = static_cast<int32_t>(needed);
    if (sequence->bounded()) {
      sequence->reserved_blocks = blocks;
      reserved_ += blocks;
      sequence->blocks.reserve(blocks);
      allocator_.Allocate(std::min(blocks, BlocksFor(request.prompt_tokens)), &sequence->blocks);
    } else {
      ++unbounded_running_;
      unbounded_held_ += blocks;
      sequence->blocks.reserve(BlocksFor(request.max_total_tokens()));
      allocator_.Allocate(blocks, &sequence->blocks);
    }
    output_.admitted.push_back(sequence);
    AppendChunk(sequence, rows);
  }
}

void Scheduler::AppendChunk(Sequence* sequence, int32_t rows) {
  if (IsLong(*sequence)) long_rows_ -= rows;
  Append(sequence, rows);
}

void Scheduler::Append(Sequence* sequence, int32_t num_tokens) {
  // What it holds was compacted or evicted as its policy says. Then its blocks suffice.
  HYDRANT_CHECK(BlocksFor(int64_t{sequence->num_slots} + num_tokens) <=
                static_cast<int32_t>(sequence->blocks.size()));
  const Request& request = sequence->request;
  const int32_t computed = sequence->num_computed_tokens + num_tokens;
  const bool ends_span = request.prefill_eviction == PrefillEviction::kPerChunk &&
                         computed % options_.per_chunk_tokens == 0;
  output_.scheduled.push_back({.sequence = sequence,
                               .num_tokens = num_tokens,
                               .samples = num_tokens == sequence->num_pending_tokens(),
                               .compacts = computed == request.prompt_tokens ||
                                           (computed < request.prompt_tokens && ends_span)});
  output_.num_tokens += num_tokens;
}

bool Scheduler::GrowForDecode(Sequence* sequence) {
  const int32_t held = static_cast<int32_t>(sequence->blocks.size());
  if (BlocksFor(int64_t{sequence->num_slots} + 1) <= held) return true;
  if (sequence->bounded()) {
    HYDRANT_CHECK(held < sequence->reserved_blocks);
    allocator_.Allocate(std::min(kDecodeExtent, sequence->reserved_blocks - held),
                        &sequence->blocks);
    return true;
  }
  while (Available() == 0) {
    PreemptLastUnbounded();
    if (sequence->status == SequenceStatus::kWaiting) return false;
  }
  allocator_.Allocate(1, &sequence->blocks);
  ++unbounded_held_;
  return true;
}

void Scheduler::PreemptLastUnbounded() {
  const auto last = std::find_if(running_.rbegin(), running_.rend(),
                                 [](const Sequence* s) { return !s->bounded(); });
  HYDRANT_CHECK(last != running_.rend());
  Sequence* sequence = *last;
  Remove(sequence);
  sequence->status = SequenceStatus::kWaiting;
  sequence->num_computed_tokens = 0;
  ++sequence->preemptions;
  Enqueue(sequence);
  output_.preempted.push_back(sequence);
}

void Scheduler::Remove(Sequence* sequence) {
  const auto place = std::lower_bound(running_.begin(), running_.end(), sequence, ServedBefore());
  HYDRANT_CHECK(place != running_.end() && *place == sequence);
  running_.erase(place);
  if (sequence->bounded()) {
    reserved_ -= sequence->reserved_blocks;
    sequence->reserved_blocks = 0;
  } else {
    unbounded_held_ -= static_cast<int32_t>(sequence->blocks.size());
    --unbounded_running_;
  }
  allocator_.Release(&sequence->blocks);
  sequence->num_slots = 0;
}

void Scheduler::Commit(const SchedulerOutput& output) {
  for (const ScheduledSequence& s : output.scheduled) {
    if (s.sequence->status != SequenceStatus::kRunning) continue;
    s.sequence->num_computed_tokens += s.num_tokens;
    s.sequence->num_slots += s.num_tokens;
  }
}

int32_t Scheduler::Compacted(Sequence* sequence) {
  HYDRANT_CHECK(sequence->status == SequenceStatus::kRunning && sequence->bounded());
  sequence->num_slots = std::min(sequence->num_slots, *sequence->request.budget);
  const int32_t reserved =
      static_cast<int32_t>(PeakBlocks(sequence->request, sequence->num_computed_tokens));
  HYDRANT_CHECK(reserved <= sequence->reserved_blocks);
  reserved_ -= sequence->reserved_blocks - reserved;
  sequence->reserved_blocks = reserved;
  const int32_t free = allocator_.free();
  allocator_.Release(&sequence->blocks, reserved);
  return allocator_.free() - free;
}

void Scheduler::Evicted(Sequence* sequence) {
  HYDRANT_CHECK(sequence->status == SequenceStatus::kRunning && sequence->bounded());
  HYDRANT_CHECK(sequence->num_slots > *sequence->request.budget);
  --sequence->num_slots;
}

void Scheduler::Finish(Sequence* sequence) {
  if (sequence->status == SequenceStatus::kWaiting) Dequeue(sequence);
  if (sequence->status == SequenceStatus::kRunning) Remove(sequence);
  sequence->status = SequenceStatus::kFinished;
}

void Scheduler::CheckInvariants() const {
  std::vector<bool> taken(allocator_.total());
  int32_t held = 0, reserved = 0, unbounded_held = 0, unbounded_running = 0;
  for (const Sequence* sequence : running_) {
    const int32_t blocks = static_cast<int32_t>(sequence->blocks.size());
    HYDRANT_CHECK(sequence->status == SequenceStatus::kRunning);
    HYDRANT_CHECK(BlocksFor(sequence->num_slots) <= blocks);
    for (int32_t block : sequence->blocks) {
      HYDRANT_CHECK(block >= 0 && block < allocator_.total());
      HYDRANT_CHECK(!taken[block] && !allocator_.is_free(block));
      taken[block] = true;
    }
    held += blocks;
    if (sequence->bounded()) {
      HYDRANT_CHECK(blocks <= sequence->reserved_blocks);
      reserved += sequence->reserved_blocks;
    } else {
      unbounded_held += blocks;
      ++unbounded_running;
    }
  }
  HYDRANT_CHECK(allocator_.free() + held == allocator_.total());
  HYDRANT_CHECK(reserved == reserved_ && unbounded_held == unbounded_held_);
  HYDRANT_CHECK(unbounded_running == unbounded_running_ && Available() >= 0);
  HYDRANT_CHECK(num_running() <= options_.max_num_seqs);
  HYDRANT_CHECK(std::is_sorted(running_.begin(), running_.end(), ServedBefore()));
  int64_t waiting_tokens = 0;
  for (const Sequence* sequence : waiting_) {
    waiting_tokens += sequence->num_pending_tokens();
    HYDRANT_CHECK(sequence->status == SequenceStatus::kWaiting);
    HYDRANT_CHECK(sequence->blocks.empty() && sequence->num_slots == 0);
  }
  HYDRANT_CHECK(waiting_tokens == waiting_tokens_);
}

}  // namespace hydrant::scheduler
