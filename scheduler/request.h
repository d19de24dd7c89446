// What the scheduler knows of a request: immutable once submitted.

#ifndef HYDRANT_SCHEDULER_REQUEST_H_
#define HYDRANT_SCHEDULER_REQUEST_H_

#include <cstdint>
#include <optional>

namespace hydrant::scheduler {

enum class PrefillEviction {
  kAfterPrompt,  // exact: the whole prompt is held until it is compacted
  kPerChunk,     // approximate: compacted after every chunk; peak is budget + chunk
};

struct Request {
  int64_t arrival = 0;        // a sequence number: ties of priority go to the earlier
  int64_t priority = 0;       // higher is served first; who ages it does so before submission
  int32_t prompt_tokens = 0;  // >= 1
  int32_t max_tokens = 1;     // >= 1, generated tokens at most
  // Tokens kept for each layer and head; nullopt: unbounded (the FULL policy).
  std::optional<int32_t> budget = std::nullopt;
  PrefillEviction prefill_eviction = PrefillEviction::kAfterPrompt;

  // Slots this request holds at the most once the prompt is computed. The last generated token is
  // never fed back, so it never takes a slot.
  int64_t max_total_tokens() const { return int64_t{prompt_tokens} + max_tokens - 1; }
  bool evicts() const { return budget.has_value() && *budget < max_total_tokens(); }
};

}  // namespace hydrant::scheduler

#endif  // HYDRANT_SCHEDULER_REQUEST_H_
