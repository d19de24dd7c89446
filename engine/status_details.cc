#include "engine/status_details.h"

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace hydrant::engine {
namespace {

constexpr char kReason[] = "hydrant/reason";
constexpr char kRetryMilliseconds[] = "hydrant/retry_ms";

}  // namespace

absl::Status WithReason(absl::Status status, std::string_view reason) {
  status.SetPayload(kReason, absl::Cord(std::string(reason)));
  return status;
}

std::optional<std::string> Reason(const absl::Status& status) {
  const auto payload = status.GetPayload(kReason);
  if (!payload) return std::nullopt;
  return std::string(*payload);
}

absl::Status WithRetryDelay(absl::Status status, std::chrono::milliseconds delay) {
  status.SetPayload(kRetryMilliseconds, absl::Cord(absl::StrCat(delay.count())));
  return status;
}

std::optional<std::chrono::milliseconds> RetryDelay(const absl::Status& status) {
  const auto payload = status.GetPayload(kRetryMilliseconds);
  int64_t milliseconds = 0;
  if (!payload || !absl::SimpleAtoi(std::string(*payload), &milliseconds)) return std::nullopt;
  return std::chrono::milliseconds(milliseconds);
}

}  // namespace hydrant::engine
