#include "server/response_buffer.h"

#include <gtest/gtest.h>

#include <string>

namespace hydrant::server {
namespace {

using engine::Delta;

Delta TextDelta(const std::string& text) {
  Delta delta;
  delta.text = text;
  return delta;
}

TEST(ResponseBufferTest, IsEmptyAtFirst) { EXPECT_FALSE(ResponseBuffer().Pop()); }

TEST(ResponseBufferTest, MergesDeltasBetweenPops) {
  ResponseBuffer buffer;
  engine::PromptInfo info;
  info.request_id = "r";
  buffer.Push(info);
  buffer.Push(Delta{"ab", {1}, {{1, {}, {}}}});
  buffer.Push(Delta{"", {2}, {{2, {}, {}}}});
  buffer.Push(Delta{"c", {3, 4}, {{3, {}, {}}, {4, {}, {}}}});
  buffer.End(engine::Finished{engine::FinishReason::kLength, {}, {}, {}});

  EXPECT_EQ(std::get<engine::PromptInfo>(*buffer.Pop()).request_id, "r");
  const Delta delta = std::get<Delta>(*buffer.Pop());
  EXPECT_EQ(delta.text, "abc");
  EXPECT_EQ(delta.token_ids, (std::vector<int32_t>{1, 2, 3, 4}));
  ASSERT_EQ(delta.logprobs.size(), 4u);
  EXPECT_EQ(delta.logprobs[3].token_id, 4);
  EXPECT_EQ(std::get<engine::Finished>(*buffer.Pop()).reason, engine::FinishReason::kLength);
  EXPECT_FALSE(buffer.Pop());
}

TEST(ResponseBufferTest, KnowsWhatItHolds) {
  ResponseBuffer buffer;
  EXPECT_EQ(buffer.held_bytes(), 0u);
  buffer.Push(TextDelta(std::string(1000, 'a')));
  buffer.Push(TextDelta(std::string(500, 'b')));
  EXPECT_GE(buffer.held_bytes(), 1500u);
  buffer.Pop();
  EXPECT_EQ(buffer.held_bytes(), 0u);
  buffer.Push(Delta{"", {1}, {{1, {}, {{2, 0.5f, "text"}}}}});
  EXPECT_GE(buffer.held_bytes(), sizeof(engine::TokenLogprobs) + sizeof(engine::TopLogprob));
  buffer.DropPending();
  EXPECT_EQ(buffer.held_bytes(), 0u);
}

TEST(ResponseBufferTest, AnErrorTakesTheEndsPlace) {
  ResponseBuffer buffer;
  buffer.End(engine::Finished{});
  buffer.End(absl::ResourceExhaustedError("slow"));
  EXPECT_TRUE(absl::IsResourceExhausted(std::get<absl::Status>(*buffer.Pop())));
  EXPECT_FALSE(buffer.Pop());
}

TEST(ResponseBufferTest, ADeltaThatWasTakenIsNotMergedInto) {
  ResponseBuffer buffer;
  buffer.Push(TextDelta("a"));
  EXPECT_EQ(std::get<Delta>(*buffer.Pop()).text, "a");
  EXPECT_FALSE(buffer.Pop());
  buffer.Push(TextDelta("b"));
  EXPECT_EQ(std::get<Delta>(*buffer.Pop()).text, "b");
}

TEST(ResponseBufferTest, MergedDeltasStayBelowTheLimitAndNothingIsLost) {
  ResponseBuffer buffer;
  std::string expected;
  for (int i = 0; i < 5000; ++i) {
    const std::string text(997, static_cast<char>('a' + i % 26));
    expected += text;
    Delta delta = TextDelta(text);
    delta.logprobs.push_back({.token_id = i, .logprob = {}, .top = {{i, -1.f, "top"}}});
    buffer.Push(delta);
  }
  buffer.End(absl::InternalError("x"));
  std::string text;
  size_t tokens = 0;
  auto event = buffer.Pop();
  for (; std::holds_alternative<Delta>(*event); event = buffer.Pop()) {
    const Delta& delta = std::get<Delta>(*event);
    EXPECT_LE(delta.text.size(), ResponseBuffer::kMaxDeltaBytes);
    text += delta.text;
    tokens += delta.logprobs.size();
  }
  EXPECT_TRUE(text == expected);
  EXPECT_EQ(tokens, 5000u);
  EXPECT_EQ(std::get<absl::Status>(*event).message(), "x");
}

TEST(ResponseBufferTest, DropPendingKeepsTheEnd) {
  ResponseBuffer buffer;
  buffer.Push(engine::PromptInfo{});
  buffer.Push(TextDelta("a"));
  buffer.DropPending();
  EXPECT_FALSE(buffer.Pop());
  buffer.Push(TextDelta("a"));
  buffer.End(absl::CancelledError("gone"));
  buffer.DropPending();
  EXPECT_TRUE(absl::IsCancelled(std::get<absl::Status>(*buffer.Pop())));
}

}  // namespace
}  // namespace hydrant::server
