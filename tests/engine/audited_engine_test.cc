// Audited requests through the engine's public API: what their usage says, that streams do not
// notice, and that the memory comes back.

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/audit.h"
#include "tests/engine/engine_driver.h"

namespace hydrant::engine {
namespace {

GenerateRequest Evicting(std::vector<int32_t> prompt, int max_tokens, int32_t budget,
                         EvictionPolicyKind policy = EvictionPolicyKind::kH2O) {
  GenerateRequest request = Request(std::move(prompt), max_tokens);
  request.eviction.policy = policy;
  request.eviction.budget_tokens = budget;
  request.eviction.audit = true;
  return request;
}

Recall RecallOf(const Stream& stream) {
  EXPECT_TRUE(stream.finished.has_value());
  EXPECT_TRUE(stream.finished->usage.recall.has_value());
  return stream.finished->usage.recall.value_or(Recall{});
}

void ExpectSame(const Recall& a, const Recall& b) {
  EXPECT_EQ(a.mean, b.mean);
  EXPECT_EQ(a.p5, b.p5);
  EXPECT_EQ(a.steps, b.steps);
  EXPECT_EQ(a.complete, b.complete);
  EXPECT_EQ(a.layer_means, b.layer_means);
}

// Bytes of the keys of kBlockSlots evicted tokens of the checkpoint.
int64_t BlockBytes(const Engine& engine) {
  const ModelInfo& info = engine.model_info();
  return AuditShape{info.num_layers, info.num_heads, info.num_kv_heads, info.head_dim}
      .block_bytes();
}

TEST(AuditedEngineTest, WhereNothingIsEvictedRecallIsOne) {
  const auto engine = LoadEngine(Options());
  GenerateRequest full = Request(RandomPrompt(60, 3), 20);
  full.eviction.policy = EvictionPolicyKind::kFull;
  full.eviction.audit = true;
  for (const GenerateRequest& request : {full, Evicting(RandomPrompt(60, 3), 20, 79)}) {
    const auto stream = Submit(*engine, request);
    stream->Wait();
    const Recall recall = RecallOf(*stream);
    EXPECT_TRUE(stream->info->eviction.audit);
    EXPECT_EQ(recall.mean, 1);
    EXPECT_EQ(recall.p5, 1);
    EXPECT_TRUE(recall.complete);
    EXPECT_EQ(recall.layer_means, std::vector<double>(engine->model_info().num_layers, 1.0));
  }
}

TEST(AuditedEngineTest, RecallGoesDownWithTheBudget) {
  const auto engine = LoadEngine(Options());
  for (const EvictionPolicyKind policy :
       {EvictionPolicyKind::kH2O, EvictionPolicyKind::kStreaming, EvictionPolicyKind::kWindow}) {
    double above = 1;
    for (const int32_t budget : {150, 100, 50, 20}) {
      const auto stream = Submit(*engine, Evicting(RandomPrompt(160, 5), 40, budget, policy));
      stream->Wait();
      const Recall recall = RecallOf(*stream);
      EXPECT_LT(recall.mean, above) << "budget " << budget;
      EXPECT_GT(recall.mean, 0);
      EXPECT_LE(recall.p5, recall.mean);
      EXPECT_GT(recall.steps, 0);
      EXPECT_TRUE(recall.complete);
      EXPECT_EQ(recall.layer_means.size(), size_t(engine->model_info().num_layers));
      above = recall.mean;
    }
  }
}

TEST(AuditedEngineTest, WhoDoesNotAskIsNotAudited) {
  const auto engine = LoadEngine(Options());
  GenerateRequest request = Evicting(RandomPrompt(60, 5), 10, 20);
  for (const std::optional<bool> audit : {std::optional<bool>(), std::optional<bool>(false)}) {
    request.eviction.audit = audit;
    const auto stream = Submit(*engine, request);
    stream->Wait();
    EXPECT_FALSE(stream->info->eviction.audit);
    EXPECT_FALSE(stream->finished->usage.recall.has_value());
  }
}

TEST(AuditedEngineTest, TheServersSampleIsAuditedUnlessARequestRefuses) {
  EngineOptions options = Options();
  options.audit_rate = 1;
  const auto engine = LoadEngine(options);
  GenerateRequest request = Evicting(RandomPrompt(60, 5), 10, 20);
  request.eviction.audit.reset();
  const auto sampled = Submit(*engine, request);
  request.eviction.audit = false;
  const auto refused = Submit(*engine, request);
  sampled->Wait();
  refused->Wait();
  EXPECT_TRUE(sampled->info->eviction.audit);
  EXPECT_LT(RecallOf(*sampled).mean, 1);
  EXPECT_FALSE(refused->info->eviction.audit);
  EXPECT_FALSE(refused->finished->usage.recall.has_value());
  EXPECT_EQ(sampled->tokens(), refused->tokens());
}

// The measure is a function of the request alone: of 16 audits at once, among neighbours that are
// preempted, each is what it is by itself, and so are all streams.
TEST(AuditedEngineTest, AmongPreemptedNeighboursItIsWhatItIsAlone) {
  EngineOptions options = Options();
  options.kv_cache_bytes = 400 << 10;
  const auto engine = LoadEngine(options), idle = LoadEngine(Options());
  std::vector<GenerateRequest> requests;
  for (int i = 0; i < 32; ++i) {
    GenerateRequest request =
        Evicting(RandomPrompt(20 + 7 * i % 130, i), 30 + 11 * i % 60, 16 + 5 * i % 40);
    if (i % 4 == 1) request.eviction.prefill_eviction = PrefillEviction::kPerChunk;
    if (i % 2 == 0) {
      // Short at first and long in the end: they are admitted together, and then lack room.
      request = Request(RandomPrompt(20 + i, i), 200);
      request.eviction.policy = EvictionPolicyKind::kFull;
    }
    requests.push_back(request);
  }
  // Makes the engine wait until all are there.
  const auto gate = SubmitHeld(*engine, Request(RandomPrompt(5, 99), 2));
  std::vector<std::shared_ptr<Stream>> streams;
  for (const GenerateRequest& request : requests) streams.push_back(Submit(*engine, request));
  gate->Release();
  int32_t preemptions = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    SCOPED_TRACE(i);
    streams[i]->Wait();
    preemptions += streams[i]->finished->usage.preemptions;
    const auto alone = Submit(*idle, requests[i]);
    alone->Wait();
    EXPECT_EQ(streams[i]->tokens(), alone->tokens());
    if (i % 2 == 1) ExpectSame(RecallOf(*streams[i]), RecallOf(*alone));
  }
  EXPECT_GT(preemptions, 0);
  ExpectAllFree(*engine);
  EXPECT_EQ(engine->load().audit_bytes_used, 0);
}

TEST(AuditedEngineTest, AFullMemoryEndsAuditsAndTouchesNoStream) {
  const auto roomy = LoadEngine(Options());
  EngineOptions options = Options();
  options.audit_bytes = 10 * BlockBytes(*roomy);
  const auto engine = LoadEngine(options);
  EXPECT_EQ(engine->load().audit_bytes_limit, options.audit_bytes);
  // Makes the engine wait until all are there.
  const auto gate = SubmitHeld(*engine, Request(RandomPrompt(5, 9), 2));
  std::vector<std::shared_ptr<Stream>> streams, expected;
  for (int i = 0; i < 8; ++i) {
    // 160 evicted at the end: the memory of one, filled by what several evict of their prompts.
    const GenerateRequest request = Evicting(RandomPrompt(60, i), 141, 40);
    streams.push_back(Submit(*engine, request));
    expected.push_back(Submit(*roomy, request));
  }
  gate->Release();
  int complete = 0, measured = 0;
  for (size_t i = 0; i < streams.size(); ++i) {
    streams[i]->Wait();
    expected[i]->Wait();
    EXPECT_EQ(streams[i]->tokens(), expected[i]->tokens());
    const Recall recall = RecallOf(*streams[i]);
    complete += recall.complete;
    measured += !recall.complete && recall.steps > 0;
    EXPECT_TRUE(RecallOf(*expected[i]).complete);
    EXPECT_LE(recall.steps, RecallOf(*expected[i]).steps);
  }
  EXPECT_LT(complete, 8);
  EXPECT_GT(measured, 0);
  EXPECT_EQ(engine->load().audit_bytes_used, 0);
  // What came free serves the next.
  const auto next = Submit(*engine, Evicting(RandomPrompt(60, 1), 141, 40));
  next->Wait();
  EXPECT_TRUE(RecallOf(*next).complete);
}

TEST(AuditedEngineTest, CancelsAndDeadlinesReturnTheMemory) {
  const auto engine = LoadEngine(Options());
  GenerateRequest request = Evicting(RandomPrompt(100, 1), 400, 20);
  request.request_id = "gone";
  const auto cancelled = SubmitHeld(*engine, request);
  EXPECT_TRUE(engine->Cancel("gone"));
  cancelled->Release();
  cancelled->Wait();
  EXPECT_TRUE(absl::IsCancelled(*cancelled->error));
  EXPECT_EQ(engine->load().audit_bytes_used, 0);

  request.request_id = "late";
  const auto late = SubmitHeld(*engine, request,
                               std::chrono::steady_clock::now() + std::chrono::milliseconds(200));
  // The second token's step keeps keys; it is reached before the deadline or the end is the same.
  late->Release();
  late->Wait();
  EXPECT_EQ(engine->load().audit_bytes_used, 0);
  ExpectAllFree(*engine);
}

TEST(AuditedEngineTest, WhileItRunsItsKeysAreCounted) {
  const auto engine = LoadEngine(Options());
  // 100 tokens of the prompt are evicted after the first token, on which the engine waits.
  const auto stream = SubmitHeld(*engine, Evicting(RandomPrompt(120, 1), 50, 20));
  const auto held = Submit(*engine, Request(RandomPrompt(5, 2), 5), std::nullopt, /*held=*/true);
  stream->Release();
  held->WaitForDelta();
  EXPECT_EQ(engine->load().audit_bytes_used, 7 * BlockBytes(*engine));
  held->Release();
  held->Wait();
  stream->Wait();
  EXPECT_EQ(engine->load().audit_bytes_used, 0);
}

TEST(AuditedEngineTest, RefusalsNameFieldAndLimit) {
  EngineOptions options = Options();
  options.audit_bytes = 0;
  const auto none = LoadEngine(options);
  const auto message_of = [](Engine& engine, const GenerateRequest& request) {
    const absl::Status status = TrySubmit(engine, request);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  const std::string off = message_of(*none, Evicting(RandomPrompt(9, 1), 5, 20));
  EXPECT_NE(off.find("eviction.audit"), std::string::npos) << off;
  EXPECT_NE(off.find("audit_bytes is 0"), std::string::npos) << off;

  options.audit_bytes = 2 * BlockBytes(*none);
  const auto small = LoadEngine(options);
  const std::string full = message_of(*small, Evicting(RandomPrompt(53, 1), 5, 20));
  EXPECT_NE(full.find("eviction.audit: the keys of the first 33 tokens"), std::string::npos)
      << full;
  EXPECT_NE(full.find("audit_bytes is " + std::to_string(options.audit_bytes)), std::string::npos)
      << full;
  const auto fits = Submit(*small, Evicting(RandomPrompt(52, 1), 5, 20));
  fits->Wait();
  EXPECT_GT(RecallOf(*fits).steps, 0);
}

TEST(AuditedEngineTest, BadOptionsAreNamed) {
  struct Case {
    double rate;
    int64_t bytes;
    const char* named;
  };
  for (const Case& c : {Case{-0.1, 1000, "audit_rate"}, Case{1.5, 1000, "audit_rate"},
                        Case{NAN, 1000, "audit_rate"}, Case{0.5, 0, "audit_bytes is 0"},
                        Case{0, -1, "audit_bytes"}, Case{0, int64_t{1} << 60, "audit_bytes"}}) {
    EngineOptions options = Options();
    options.audit_rate = c.rate;
    options.audit_bytes = c.bytes;
    const absl::Status status =
        Engine::Load(options, nullptr, [](std::string_view, double) {}).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status));
    EXPECT_NE(std::string(status.message()).find(c.named), std::string::npos) << status;
  }
}

}  // namespace
}  // namespace hydrant::engine
