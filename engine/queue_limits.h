// How much may wait, and how long.

#ifndef HYDRANT_ENGINE_QUEUE_LIMITS_H_
#define HYDRANT_ENGINE_QUEUE_LIMITS_H_

#include <chrono>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"

namespace hydrant::engine {

struct QueueLimits {
  int32_t max_requests = 1024;
  int64_t max_tokens = 0;  // prompt tokens of all that wait; 0: no limit
  // A request that did not start within this is refused after all.
  std::optional<std::chrono::duration<double>> timeout = std::nullopt;
};

struct QueueSize {
  int32_t requests = 0;
  int64_t tokens = 0;
};

// RESOURCE_EXHAUSTED naming the limit when no request may join a queue of this size.
absl::Status CheckQueue(const QueueLimits& limits, const QueueSize& size);

// The same for what can only be told with the prompt at hand. Where nobody waits, any prompt may.
absl::Status CheckPromptRoom(const QueueLimits& limits, const QueueSize& size,
                             int64_t prompt_tokens);

}  // namespace hydrant::engine

#endif  // HYDRANT_ENGINE_QUEUE_LIMITS_H_
