#include "engine/queue_limits.h"

#include "absl/strings/str_cat.h"

namespace hydrant::engine {

absl::Status CheckQueue(const QueueLimits& limits, const QueueSize& size) {
  if (size.requests >= limits.max_requests) {
    return absl::ResourceExhaustedError(absl::StrCat("the queue is full: ", size.requests,
                                                     " requests wait, max_queue is ",
                                                     limits.max_requests));
  }
  if (limits.max_tokens > 0 && size.tokens >= limits.max_tokens) {
    return absl::ResourceExhaustedError(absl::StrCat("the queue is full: ", size.tokens,
                                                     " prompt tokens wait, max_queue_tokens is ",
                                                     limits.max_tokens));
  }
  return absl::OkStatus();
}

absl::Status CheckPromptRoom(const QueueLimits& limits, const QueueSize& size,
                             int64_t prompt_tokens) {
  if (limits.max_tokens == 0 || size.tokens == 0 ||
      size.tokens + prompt_tokens <= limits.max_tokens) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "the queue is full: ", size.tokens, " prompt tokens wait, and with this prompt's ",
      prompt_tokens, " they would be more than max_queue_tokens, ", limits.max_tokens));
}

}  // namespace hydrant::engine
