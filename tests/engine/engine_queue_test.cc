// Who may wait in the engine, for how long, and who goes first.

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "engine/status_details.h"
#include "tests/engine/engine_driver.h"

namespace hydrant::engine {
namespace {

EngineOptions OneSeat() {
  EngineOptions options = Options();
  options.max_num_seqs = 1;
  return options;
}

TEST(EngineQueueTest, IsBoundedByTokensToo) {
  EngineOptions options = OneSeat();
  options.queue.max_tokens = 50;
  const auto engine = LoadEngine(options);
  std::vector<std::shared_ptr<Stream>> streams = {
      SubmitHeld(*engine, Request(RandomPrompt(60, 1), 50))};
  streams.push_back(Submit(*engine, Request(RandomPrompt(30, 2), 2)));
  EXPECT_EQ(engine->load().waiting_tokens, 30);
  EXPECT_TRUE(engine->CheckRoom().ok());
  const absl::Status too_long = TrySubmit(*engine, Request(RandomPrompt(21, 3), 2));
  EXPECT_TRUE(absl::IsResourceExhausted(too_long)) << too_long;
  EXPECT_NE(std::string(too_long.message()).find("max_queue_tokens"), std::string::npos);
  streams.push_back(Submit(*engine, Request(RandomPrompt(20, 4), 2)));
  EXPECT_TRUE(absl::IsResourceExhausted(engine->CheckRoom()));
  const absl::Status later = TrySubmit(*engine, Request(RandomPrompt(1, 5), 2));
  EXPECT_TRUE(absl::IsResourceExhausted(later));
  // Each refusal tells of a place of its own: the third, of which nothing is known of their pace.
  EXPECT_GT(RetryDelay(later), std::chrono::milliseconds(1000));
  EXPECT_LE(RetryDelay(later), std::chrono::milliseconds(3000));
  streams[0]->Release();
  for (const auto& stream : streams) {
    stream->Wait();
    EXPECT_TRUE(stream->finished);
  }
  EXPECT_TRUE(engine->CheckRoom().ok());
  EXPECT_EQ(engine->load().waiting_tokens, 0);
  ExpectAllFree(*engine);
}

TEST(EngineQueueTest, WhatWaitsTooLongIsRefusedAfterAll) {
  EngineOptions options = OneSeat();
  // Long enough for the first request to begin on a busy machine.
  options.queue.timeout = std::chrono::milliseconds(500);
  const auto engine = LoadEngine(options);
  const auto running = SubmitHeld(*engine, Request(RandomPrompt(20, 1), 50));
  const auto waiting = Submit(*engine, Request(RandomPrompt(20, 2), 50));
  std::this_thread::sleep_for(std::chrono::milliseconds(510));
  running->Release();
  waiting->Wait();
  ASSERT_TRUE(waiting->error);
  EXPECT_TRUE(absl::IsResourceExhausted(*waiting->error)) << *waiting->error;
  EXPECT_TRUE(RetryDelay(*waiting->error));
  EXPECT_EQ(Reason(*waiting->error), "QUEUE_TIMEOUT");
  running->Wait();
  EXPECT_TRUE(running->finished);  // what has begun is not hurried
  ExpectAllFree(*engine);
}

bool Began(Stream& stream) {
  std::lock_guard lock(stream.mutex);
  return !stream.deltas.empty();
}

// Of two that wait, in the order given, whether the second runs first. Whoever does holds the
// engine, so that the other cannot begin meanwhile.
bool SecondOvertakes(const EngineOptions& options, int32_t first_priority,
                     int32_t second_priority) {
  const auto engine = LoadEngine(options);
  const auto running = SubmitHeld(*engine, Request(RandomPrompt(20, 1), 2));
  GenerateRequest request = Request(RandomPrompt(20, 2), 2);
  request.priority = first_priority;
  const auto first = Submit(*engine, request, std::nullopt, /*held=*/true);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  request.priority = second_priority;
  const auto second = Submit(*engine, request, std::nullopt, /*held=*/true);
  running->Release();
  while (!Began(*first) && !Began(*second)) std::this_thread::yield();
  const bool overtook = Began(*second);
  for (const auto& stream : {first, second}) stream->Release();
  for (const auto& stream : {running, first, second}) stream->Wait();
  return overtook;
}

TEST(EngineQueueTest, PrioritiesOvertakeAndAge) {
  EngineOptions options = OneSeat();
  EXPECT_TRUE(SecondOvertakes(options, 0, 1));
  EXPECT_FALSE(SecondOvertakes(options, 0, 0));
  options.priority_aging = 0.0001;  // the first has waited for 200 steps of priority by then
  EXPECT_FALSE(SecondOvertakes(options, 0, 100));
  options.priority_aging = 0;
  EXPECT_TRUE(SecondOvertakes(options, 0, 1));
}

TEST(EngineQueueTest, PrioritiesAreBounded) {
  const auto engine = LoadEngine(Options());
  GenerateRequest request = Request(RandomPrompt(20, 1), 2);
  for (const int32_t priority : {101, -101, INT32_MAX, INT32_MIN}) {
    request.priority = priority;
    const absl::Status refused = TrySubmit(*engine, request);
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
    EXPECT_NE(std::string(refused.message()).find("priority"), std::string::npos);
  }
}

TEST(EngineQueueTest, TellsTheStepThatIsUnderWay) {
  const auto engine = LoadEngine(Options());
  EXPECT_FALSE(engine->load().in_step);
  const auto held = SubmitHeld(*engine, Request(RandomPrompt(20, 1), 5));
  EXPECT_TRUE(engine->load().in_step);
  const int64_t step = engine->load().steps_begun;
  EXPECT_GE(step, 1);
  held->Release();
  held->Wait();
  ExpectAllFree(*engine);
  EXPECT_FALSE(engine->load().in_step);
  EXPECT_GT(engine->load().steps_begun, step);
}

TEST(EngineQueueTest, WhatIsGivenUpIsNotHealthyAndTakesNothing) {
  const auto engine = LoadEngine(Options());
  EXPECT_TRUE(engine->load().healthy);
  engine->GiveUp();
  EXPECT_FALSE(engine->load().healthy);
  EXPECT_TRUE(absl::IsUnavailable(TrySubmit(*engine, Request(RandomPrompt(20, 1), 5))));
}

}  // namespace
}  // namespace hydrant::engine
