// The engine through its public API, on a small checkpoint: streams, overload, cancelling,
// deadlines, draining.

#include "engine/engine.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "tests/engine/engine_driver.h"

namespace hydrant::engine {
namespace {

TEST(EngineTest, OneStreamSaysWhatItIsAndEndsOnce) {
  const auto engine = LoadEngine(Options());
  GenerateRequest request = Request(RandomPrompt(20, 1), 12);
  request.output.logprobs = 3;
  request.output.prompt_logprobs = 2;
  const auto stream = Submit(*engine, request);
  stream->Wait();
  ASSERT_TRUE(stream->finished) << *stream->error;
  EXPECT_EQ(stream->info->prompt_tokens, 20);
  EXPECT_EQ(stream->info->model, "llama-gqa");
  ASSERT_EQ(stream->info->prompt_logprobs.size(), 20u);
  EXPECT_FALSE(stream->info->prompt_logprobs[0].logprob.has_value());
  EXPECT_LE(*stream->info->prompt_logprobs[1].logprob, 0);
  EXPECT_EQ(stream->info->prompt_logprobs[1].top.size(), 2u);
  EXPECT_EQ(stream->tokens().size(), 12u);
  EXPECT_EQ(stream->text(), engine->tokenizer().Decode(stream->tokens(), true));
  for (const Delta& delta : stream->deltas) {
    ASSERT_EQ(delta.logprobs.size(), 1u);
    ASSERT_EQ(delta.logprobs[0].top.size(), 3u);
    EXPECT_EQ(delta.logprobs[0].top[0].token_id, delta.token_ids[0]);  // greedy
  }
  EXPECT_EQ(stream->finished->reason, FinishReason::kLength);
  EXPECT_EQ(stream->finished->usage.completion_tokens, 12);
  EXPECT_EQ(stream->finished->usage.evicted_tokens, 0);
  EXPECT_EQ(stream->finished->usage.peak_kv_tokens, 31);
  ExpectAllFree(*engine);
}

TEST(EngineTest, EvictionIsAppliedAndTold) {
  const auto engine = LoadEngine(Options());
  GenerateRequest request = Request(RandomPrompt(100, 2), 50);
  request.eviction.policy = EvictionPolicyKind::kH2O;
  request.eviction.budget_tokens = 30;
  const auto stream = Submit(*engine, request);
  stream->Wait();
  ASSERT_TRUE(stream->finished);
  EXPECT_EQ(stream->info->eviction.budget_tokens, 30);
  EXPECT_EQ(stream->info->eviction.sink_tokens + stream->info->eviction.heavy_tokens +
                stream->info->eviction.recent_tokens,
            30);
  // 149 tokens were fed; 31 are left, since nothing is evicted after the last.
  EXPECT_EQ(stream->finished->usage.evicted_tokens, 118);
  EXPECT_EQ(stream->finished->usage.peak_kv_tokens, 100);
  ExpectAllFree(*engine);
}

TEST(EngineTest, ABudgetThatCoversTheRequestIsFull) {
  const auto engine = LoadEngine(Options());
  GenerateRequest full = Request(RandomPrompt(60, 3), 40);
  full.eviction.policy = EvictionPolicyKind::kFull;
  GenerateRequest covered = full;
  covered.eviction.policy = EvictionPolicyKind::kH2O;
  covered.eviction.budget_tokens = 99;
  const auto a = Submit(*engine, full), b = Submit(*engine, covered);
  a->Wait();
  b->Wait();
  EXPECT_EQ(a->tokens(), b->tokens());
  EXPECT_EQ(b->finished->usage.evicted_tokens, 0);
}

TEST(EngineTest, EchoComesFirst) {
  const auto engine = LoadEngine(Options());
  GenerateRequest request = Request({}, 3);
  request.input = std::string("The licensor grants");
  request.output.echo = true;
  const auto stream = Submit(*engine, request);
  stream->Wait();
  ASSERT_TRUE(stream->finished);
  EXPECT_EQ(stream->text().rfind("The licensor grants", 0), 0u) << stream->text();
}

TEST(EngineTest, StopsAtAStopString) {
  const auto engine = LoadEngine(Options());
  const auto whole = Submit(*engine, Request(RandomPrompt(20, 4), 40));
  whole->Wait();
  const std::string text = whole->text();
  ASSERT_GT(text.size(), 20u);
  // A string from the middle, beginning at a character.
  size_t begin = 10;
  while ((text[begin] & 0xC0) == 0x80) ++begin;
  size_t end = begin + 4;
  while (end < text.size() && (text[end] & 0xC0) == 0x80) ++end;
  const std::string stop = text.substr(begin, end - begin);
  for (const bool include : {false, true}) {
    GenerateRequest request = Request(RandomPrompt(20, 4), 40);
    request.stopping.stop = {stop};
    request.stopping.include_stop_str_in_output = include;
    const auto stream = Submit(*engine, request);
    stream->Wait();
    ASSERT_TRUE(stream->finished);
    EXPECT_EQ(stream->finished->reason, FinishReason::kStop);
    EXPECT_EQ(std::get<std::string>(stream->finished->matched), stop);
    EXPECT_EQ(stream->text(),
              text.substr(0, text.find(stop) + (include ? stop.size() : size_t{0})));
  }
}

TEST(EngineTest, StopTokensEndTheStream) {
  const auto engine = LoadEngine(Options());
  const auto whole = Submit(*engine, Request(RandomPrompt(20, 5), 10));
  whole->Wait();
  GenerateRequest request = Request(RandomPrompt(20, 5), 10);
  request.stopping.stop_token_ids = {whole->tokens()[4]};
  const auto stream = Submit(*engine, request);
  stream->Wait();
  ASSERT_TRUE(stream->finished);
  EXPECT_EQ(stream->finished->reason, FinishReason::kStop);
  EXPECT_EQ(std::get<int32_t>(stream->finished->matched), whole->tokens()[4]);
  EXPECT_LE(stream->tokens().size(), 5u);
}

TEST(EngineTest, AFullQueueRefusesAndADuplicateIdToo) {
  EngineOptions options = Options();
  options.max_num_seqs = 1;
  options.queue.max_requests = 2;
  const auto engine = LoadEngine(options);
  GenerateRequest request = Request(RandomPrompt(20, 6), 400);
  request.request_id = "first";
  std::vector<std::shared_ptr<Stream>> streams = {SubmitHeld(*engine, request)};
  EXPECT_TRUE(absl::IsAlreadyExists(TrySubmit(*engine, request)));
  request.request_id.clear();
  streams.push_back(Submit(*engine, request));
  streams.push_back(Submit(*engine, request));
  const absl::Status refused = TrySubmit(*engine, request);
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_NE(std::string(refused.message()).find("max_queue is 2"), std::string::npos) << refused;
  streams[0]->Release();
  for (const auto& stream : streams) {
    stream->Wait();
    EXPECT_TRUE(stream->finished);
  }
  ExpectAllFree(*engine);
}

// What can run at once does not wait, however short the queue.
TEST(EngineTest, AnIdleEngineTakesABurst) {
  EngineOptions options = Options();
  options.queue.max_requests = 1;
  const auto engine = LoadEngine(options);
  std::vector<std::shared_ptr<Stream>> streams;
  for (int i = 0; i < 16; ++i) streams.push_back(Submit(*engine, Request(RandomPrompt(4, i), 5)));
  for (const auto& stream : streams) {
    stream->Wait();
    EXPECT_TRUE(stream->finished);
  }
  ExpectAllFree(*engine);
}

TEST(EngineTest, CancelFreesQueuedAndRunning) {
  EngineOptions options = Options();
  options.max_num_seqs = 1;
  const auto engine = LoadEngine(options);
  GenerateRequest request = Request(RandomPrompt(20, 7), 400);
  request.request_id = "running";
  const auto running = SubmitHeld(*engine, request);
  request.request_id = "queued";
  const auto queued = Submit(*engine, request);
  EXPECT_TRUE(engine->Cancel("queued"));
  EXPECT_TRUE(engine->Cancel("running"));
  running->Release();
  for (const auto& stream : {queued, running}) {
    stream->Wait();
    ASSERT_TRUE(stream->error);
    EXPECT_TRUE(absl::IsCancelled(*stream->error));
  }
  // One token came before the engine was held, none after the cancel.
  EXPECT_EQ(running->deltas.size(), 1u);
  EXPECT_FALSE(engine->Cancel("running"));
  EXPECT_FALSE(engine->Cancel("nobody"));
  ExpectAllFree(*engine);
}

TEST(EngineTest, DeadlinesEndQueuedAndRunning) {
  EngineOptions options = Options();
  options.max_num_seqs = 1;
  const auto engine = LoadEngine(options);
  const auto now = std::chrono::steady_clock::now();
  const GenerateRequest request = Request(RandomPrompt(20, 8), 450);
  const auto deadline = now + std::chrono::seconds(1);
  const auto running = SubmitHeld(*engine, request, deadline);
  const auto queued = Submit(*engine, request, deadline - std::chrono::milliseconds(15));
  const absl::Status late =
      engine->Submit(request, std::make_unique<RecordingSink>(std::make_shared<Stream>()),
                     now - std::chrono::milliseconds(1));
  EXPECT_TRUE(absl::IsDeadlineExceeded(late)) << late;
  std::this_thread::sleep_until(deadline);
  running->Release();
  for (const auto& stream : {running, queued}) {
    stream->Wait();
    ASSERT_TRUE(stream->error);
    EXPECT_TRUE(absl::IsDeadlineExceeded(*stream->error));
  }
  ExpectAllFree(*engine);
}

TEST(EngineTest, DrainingFinishesWhatRunsAndRefusesWhatIsNew) {
  const auto engine = LoadEngine(Options());
  const auto stream = SubmitHeld(*engine, Request(RandomPrompt(20, 9), 100));
  engine->StartDraining();
  EXPECT_TRUE(absl::IsUnavailable(TrySubmit(*engine, Request(RandomPrompt(20, 9), 5))));
  EXPECT_FALSE(engine->Drained());
  stream->Release();
  stream->Wait();
  EXPECT_TRUE(stream->finished);
  while (!engine->Drained()) std::this_thread::yield();
}

TEST(EngineTest, AbortAllEndsEveryStream) {
  const auto engine = LoadEngine(Options());
  std::vector<std::shared_ptr<Stream>> streams;
  streams.push_back(SubmitHeld(*engine, Request(RandomPrompt(50, 0), 400)));
  for (int i = 1; i < 40; ++i)
    streams.push_back(Submit(*engine, Request(RandomPrompt(50, i), 400)));
  engine->AbortAll(absl::UnavailableError("going away"));
  streams[0]->Release();
  for (const auto& stream : streams) {
    stream->Wait();
    EXPECT_TRUE(stream->error && absl::IsUnavailable(*stream->error));
  }
  ExpectAllFree(*engine);
}

TEST(EngineTest, TheDestructorEndsEveryStream) {
  std::vector<std::shared_ptr<Stream>> streams;
  {
    const auto engine = LoadEngine(Options());
    for (int i = 0; i < 5; ++i)
      streams.push_back(Submit(*engine, Request(RandomPrompt(50, i), 400)));
  }
  for (const auto& stream : streams) {
    ASSERT_TRUE(stream->done());
    EXPECT_TRUE(stream->finished || absl::IsUnavailable(*stream->error));
  }
}

// Random cancels while 200 requests of all kinds come and go.
TEST(EngineTest, RandomCancelsLeaveNothingBehind) {
  EngineOptions options = Options();
  options.kv_cache_bytes = 1 << 20;
  const auto engine = LoadEngine(options);
  std::mt19937 random(3);
  std::vector<std::shared_ptr<Stream>> streams;
  for (int i = 0; i < 200; ++i) {
    GenerateRequest request = Request(RandomPrompt(1 + random() % 150, i), 1 + random() % 80);
    request.request_id = std::to_string(i);
    request.priority = static_cast<int32_t>(random() % 3);
    if (random() % 2 == 0) {
      request.eviction.policy = EvictionPolicyKind::kFull;
    } else {
      request.eviction.budget_tokens = 16 + random() % 40;
    }
    streams.push_back(Submit(*engine, request));
    if (random() % 3 == 0) engine->Cancel(std::to_string(random() % (i + 1)));
    if (random() % 8 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  for (const auto& stream : streams) stream->Wait();
  ExpectAllFree(*engine);
}

TEST(EngineTest, RefusalsNameTheThing) {
  const auto engine = LoadEngine(Options());
  GenerateRequest request = Request(RandomPrompt(5, 1), 5);
  request.model = "another";
  EXPECT_TRUE(absl::IsNotFound(TrySubmit(*engine, request)));
  request.model.clear();
  request.input = std::vector<int32_t>{};
  EXPECT_TRUE(absl::IsInvalidArgument(TrySubmit(*engine, request)));
  EngineOptions tiny = Options();
  tiny.kv_cache_bytes = 100 << 10;
  const auto small = LoadEngine(tiny);
  GenerateRequest large = Request(RandomPrompt(400, 1), 100);
  large.eviction.policy = EvictionPolicyKind::kFull;
  const absl::Status never = TrySubmit(*small, large);
  EXPECT_TRUE(absl::IsInvalidArgument(never)) << never;
}

TEST(EngineTest, BadOptionsAreErrors) {
  const auto status_of = [](const EngineOptions& options) {
    return Engine::Load(options, nullptr, [](std::string_view, double) {}).status();
  };
  EngineOptions options = Options();
  options.model_path = "/nowhere";
  EXPECT_FALSE(status_of(options).ok());
  options = Options();
  options.kv_cache_bytes = 10;
  EXPECT_TRUE(absl::IsInvalidArgument(status_of(options)));
  options = Options();
  options.max_batched_tokens = 8;
  EXPECT_TRUE(absl::IsInvalidArgument(status_of(options)));
  options = Options();
  options.kv_cache_bytes = int64_t{1} << 50;
  EXPECT_TRUE(absl::IsInvalidArgument(status_of(options)));
  options = Options();
  options.max_batched_tokens = 2'000'000'000;
  EXPECT_TRUE(absl::IsInvalidArgument(status_of(options)));
  options = Options();
  options.device = "abacus";
  EXPECT_TRUE(absl::IsInvalidArgument(status_of(options)));
}

}  // namespace
}  // namespace hydrant::engine
