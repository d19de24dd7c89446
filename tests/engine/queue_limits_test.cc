#include "engine/queue_limits.h"

#include <gtest/gtest.h>

#include <string>

namespace hydrant::engine {
namespace {

TEST(QueueLimitsTest, CountsRequests) {
  const QueueLimits limits{.max_requests = 2};
  EXPECT_TRUE(CheckQueue(limits, {1, 1'000'000}).ok());
  const absl::Status full = CheckQueue(limits, {2, 0});
  EXPECT_TRUE(absl::IsResourceExhausted(full));
  EXPECT_NE(std::string(full.message()).find("max_queue is 2"), std::string::npos);
  EXPECT_TRUE(CheckPromptRoom(limits, {1, 1'000'000}, 1'000'000).ok());
}

TEST(QueueLimitsTest, CountsTokens) {
  const QueueLimits limits{.max_requests = 100, .max_tokens = 50};
  EXPECT_TRUE(CheckQueue(limits, {3, 49}).ok());
  const absl::Status full = CheckQueue(limits, {3, 50});
  EXPECT_TRUE(absl::IsResourceExhausted(full));
  EXPECT_NE(std::string(full.message()).find("max_queue_tokens is 50"), std::string::npos);
  EXPECT_TRUE(CheckPromptRoom(limits, {3, 40}, 10).ok());
  const absl::Status too_long = CheckPromptRoom(limits, {3, 40}, 11);
  EXPECT_TRUE(absl::IsResourceExhausted(too_long));
  EXPECT_NE(std::string(too_long.message()).find("max_queue_tokens, 50"), std::string::npos);
}

TEST(QueueLimitsTest, AnyPromptMayWaitAlone) {
  const QueueLimits limits{.max_requests = 100, .max_tokens = 50};
  EXPECT_TRUE(CheckPromptRoom(limits, {0, 0}, 1000).ok());
}

}  // namespace
}  // namespace hydrant::engine
