// What a status says beside its code and message, for clients that decide by it: a reason for
// machines, and when it is worth coming back. Kept in the status's payloads.

#ifndef HYDRANT_ENGINE_STATUS_DETAILS_H_
#define HYDRANT_ENGINE_STATUS_DETAILS_H_

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace hydrant::engine {

// `reason`: UPPER_SNAKE_CASE. Nothing happens to an OK status.
absl::Status WithReason(absl::Status status, std::string_view reason);
std::optional<std::string> Reason(const absl::Status& status);

absl::Status WithRetryDelay(absl::Status status, std::chrono::milliseconds delay);
std::optional<std::chrono::milliseconds> RetryDelay(const absl::Status& status);

}  // namespace hydrant::engine

#endif  // HYDRANT_ENGINE_STATUS_DETAILS_H_
