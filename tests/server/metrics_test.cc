#include "server/metrics.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/server/fake_engine.h"

namespace hydrant::server {
namespace {

// Whether the page has this line.
testing::AssertionResult Has(const std::string& page, const std::string& line) {
  if (("\n" + page).find("\n" + line + "\n") != std::string::npos) {
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure() << "no line '" << line << "' in\n" << page;
}

TEST(MetricsTest, AllNamesExistFromTheStart) {
  const std::string page = Metrics("m", MetricNames::kHydrant).Page();
  for (const char* type_line : {"num_requests_running gauge",
                                "num_requests_waiting gauge",
                                "kv_cache_usage_perc gauge",
                                "prompt_tokens_total counter",
                                "generation_tokens_total counter",
                                "num_preemptions_total counter",
                                "request_success_total counter",
                                "time_to_first_token_seconds histogram",
                                "inter_token_latency_seconds histogram",
                                "e2e_request_latency_seconds histogram",
                                "request_queue_time_seconds histogram",
                                "request_prefill_time_seconds histogram",
                                "request_decode_time_seconds histogram",
                                "request_prompt_tokens histogram",
                                "request_generation_tokens histogram",
                                "iteration_tokens_total histogram",
                                "batch_size histogram",
                                "batch_size_current gauge",
                                "kv_blocks gauge",
                                "kv_cache_bytes gauge",
                                "kv_evicted_tokens_total counter",
                                "kv_blocks_freed_by_eviction_total counter",
                                "request_kv_retained_ratio histogram",
                                "attention_recall histogram",
                                "audits_ended_early_total counter",
                                "audit_memory_used_bytes gauge",
                                "audit_memory_limit_bytes gauge",
                                "requests_rejected_total counter",
                                "requests_cancelled_total counter",
                                "grpc_streams_active gauge",
                                "engine_last_step_timestamp_seconds gauge",
                                "model_load_progress_ratio gauge"}) {
    EXPECT_TRUE(Has(page, absl::StrCat("# TYPE hydrant_", type_line)));
  }
  for (const char* reason : {"queue_full", "invalid_argument", "draining", "loading",
                             "duplicate_id", "unknown_model", "unimplemented"}) {
    EXPECT_TRUE(Has(page, absl::StrCat("hydrant_requests_rejected_total{model_name=\"m\",reason=\"",
                                       reason, "\"} 0")));
  }
  const std::string vllm = Metrics("m", MetricNames::kVllm).Page();
  EXPECT_TRUE(Has(vllm, "vllm:num_requests_running{model_name=\"m\"} 0"));
  EXPECT_EQ(vllm.find("hydrant_"), std::string::npos);
}

TEST(MetricsTest, GaugesAreTheEnginesAtTheScrape) {
  Metrics metrics("m", MetricNames::kHydrant);
  auto engine = std::make_shared<FakeEngine>();
  metrics.SetEngine(engine);
  metrics.OnStep({.batch_size = 5});
  engine->SetLoad({.running = 5,
                   .waiting = 2,
                   .kv_blocks_total = 8,
                   .kv_blocks_free = 6,
                   .audit_bytes_used = 500,
                   .audit_bytes_limit = 2000,
                   .last_step_unix_ms = 1500});
  std::string page = metrics.Page();
  EXPECT_TRUE(Has(page, "hydrant_num_requests_running{model_name=\"m\"} 5"));
  EXPECT_TRUE(Has(page, "hydrant_num_requests_waiting{model_name=\"m\"} 2"));
  EXPECT_TRUE(Has(page, "hydrant_kv_cache_usage_perc{model_name=\"m\"} 0.25"));
  EXPECT_TRUE(Has(page, "hydrant_kv_blocks{model_name=\"m\",state=\"used\"} 2"));
  EXPECT_TRUE(Has(page, "hydrant_kv_blocks{model_name=\"m\",state=\"free\"} 6"));
  EXPECT_TRUE(Has(page, "hydrant_kv_cache_bytes{model_name=\"m\"} 1048576"));
  EXPECT_TRUE(Has(page,
                  "hydrant_cache_config_info{model_name=\"m\",block_size=\"16\","
                  "num_gpu_blocks=\"64\"} 1"));
  EXPECT_TRUE(Has(page, "hydrant_audit_memory_used_bytes{model_name=\"m\"} 500"));
  EXPECT_TRUE(Has(page, "hydrant_audit_memory_limit_bytes{model_name=\"m\"} 2000"));
  EXPECT_TRUE(Has(page, "hydrant_batch_size_current{model_name=\"m\"} 5"));
  EXPECT_TRUE(Has(page, "hydrant_engine_last_step_timestamp_seconds{model_name=\"m\"} 1.5"));
  // Everything aborted: no step follows that could say so.
  engine->SetLoad({.kv_blocks_total = 8, .kv_blocks_free = 8});
  page = metrics.Page();
  EXPECT_TRUE(Has(page, "hydrant_num_requests_running{model_name=\"m\"} 0"));
  EXPECT_TRUE(Has(page, "hydrant_kv_cache_usage_perc{model_name=\"m\"} 0"));
  EXPECT_TRUE(Has(page, "hydrant_batch_size_current{model_name=\"m\"} 0"));
  engine.reset();
  EXPECT_TRUE(Has(metrics.Page(), "hydrant_kv_cache_bytes{model_name=\"m\"} 0"));
}

TEST(MetricsTest, EveryTerminalStateIsCounted) {
  Metrics metrics("m", MetricNames::kHydrant);
  for (engine::RequestOutcome outcome :
       {engine::RequestOutcome::kStop, engine::RequestOutcome::kLength,
        engine::RequestOutcome::kCancelled, engine::RequestOutcome::kDeadline,
        engine::RequestOutcome::kError}) {
    engine::RequestStats request;
    request.outcome = outcome;
    metrics.OnRequestEnd(request);
  }
  const std::string page = metrics.Page();
  for (const char* reason : {"stop", "length", "abort", "deadline", "error"}) {
    EXPECT_TRUE(
        Has(page, absl::StrCat("hydrant_request_success_total{model_name=\"m\",finished_reason=\"",
                               reason, "\"} 1")));
  }
  EXPECT_TRUE(Has(page, "hydrant_requests_cancelled_total{model_name=\"m\"} 1"));
  EXPECT_TRUE(Has(page, "hydrant_e2e_request_latency_seconds_count{model_name=\"m\"} 5"));
  EXPECT_TRUE(Has(page, "hydrant_request_kv_retained_ratio_count{model_name=\"m\"} 0"));
}

TEST(MetricsTest, OnlyPhasesThatWereReachedAreObserved) {
  Metrics metrics("m", MetricNames::kHydrant);
  engine::RequestStats request;
  request.outcome = engine::RequestOutcome::kCancelled;
  request.usage.prompt_tokens = 60;
  metrics.OnRequestEnd(request);  // left the queue
  std::string page = metrics.Page();
  for (const char* name : {"request_prefill_time_seconds", "request_decode_time_seconds",
                           "request_generation_tokens", "request_kv_retained_ratio"}) {
    EXPECT_TRUE(Has(page, absl::StrCat("hydrant_", name, "_count{model_name=\"m\"} 0")));
  }
  EXPECT_TRUE(Has(page, "hydrant_request_prompt_tokens_count{model_name=\"m\"} 1"));
  request.time_to_first_token = 0.1;
  metrics.OnRequestEnd(request);  // left while it was answered
  page = metrics.Page();
  EXPECT_TRUE(Has(page, "hydrant_request_prefill_time_seconds_count{model_name=\"m\"} 1"));
  EXPECT_TRUE(Has(page, "hydrant_request_kv_retained_ratio_count{model_name=\"m\"} 1"));
}

TEST(MetricsTest, CountsWhatTheEngineTells) {
  Metrics metrics("m", MetricNames::kHydrant);
  metrics.OnStep({.batch_size = 3,
                  .num_tokens = 40,
                  .prefill_tokens = 38,
                  .generated_tokens = 2,
                  .preemptions = 1});
  metrics.OnEviction(
      {.policy = engine::EvictionPolicyKind::kStreaming, .tokens = 17, .blocks_freed = 1});
  metrics.OnFirstToken(0.002);
  metrics.OnInterToken(0.0005);
  metrics.OnRejected("queue_full");
  metrics.OnRejected("duplicate_id");
  metrics.StreamOpened();
  metrics.SetLoadProgress(0.5);
  engine::RequestStats request;
  request.usage.prompt_tokens = 60;
  request.usage.completion_tokens = 40;
  request.usage.evicted_tokens = 75;
  metrics.OnRequestEnd(request);
  const std::string page = metrics.Page();
  for (const char* line :
       {"prompt_tokens_total{model_name=\"m\"} 38", "generation_tokens_total{model_name=\"m\"} 2",
        "num_preemptions_total{model_name=\"m\"} 1",
        "iteration_tokens_total_sum{model_name=\"m\"} 40", "batch_size_sum{model_name=\"m\"} 3",
        "kv_evicted_tokens_total{model_name=\"m\",policy=\"streaming\"} 17",
        "kv_blocks_freed_by_eviction_total{model_name=\"m\"} 1",
        "inter_token_latency_seconds_bucket{model_name=\"m\",le=\"0.001\"} 1",
        "time_to_first_token_seconds_bucket{model_name=\"m\",le=\"0.001\"} 0",
        "time_to_first_token_seconds_bucket{model_name=\"m\",le=\"0.005\"} 1",
        "requests_rejected_total{model_name=\"m\",reason=\"queue_full\"} 1",
        "requests_rejected_total{model_name=\"m\",reason=\"duplicate_id\"} 1",
        "request_kv_retained_ratio_sum{model_name=\"m\"} 0.25",
        "grpc_streams_active{model_name=\"m\"} 1",
        "model_load_progress_ratio{model_name=\"m\"} 0.5"}) {
    EXPECT_TRUE(Has(page, absl::StrCat("hydrant_", line)));
  }
}

TEST(MetricsTest, RecallIsByPolicyAndThirdOfTheLayers) {
  Metrics metrics("m", MetricNames::kHydrant);
  const auto line = [](const char* part, const char* layers, const char* value,
                       const char* policy = "h2o") {
    return absl::StrCat("hydrant_attention_recall_", part, "{model_name=\"m\",layers=\"", layers,
                        "\",policy=\"", policy, "\"} ", value);
  };
  for (const char* policy : {"window", "streaming", "h2o"}) {
    EXPECT_TRUE(Has(metrics.Page(), line("count", "first", "0", policy)));
  }
  engine::RequestStats request;
  request.time_to_first_token = 0.1;
  request.eviction.policy = engine::EvictionPolicyKind::kH2O;
  metrics.OnRequestEnd(request);  // not audited
  request.usage.recall = engine::Recall{
      .mean = 0, .p5 = 0, .steps = 0, .complete = false, .layer_means = {0, 0, 0, 0}};
  metrics.OnRequestEnd(request);  // ended before it measured anything
  EXPECT_TRUE(Has(metrics.Page(), line("count", "first", "0")));
  EXPECT_TRUE(Has(metrics.Page(), "hydrant_audits_ended_early_total{model_name=\"m\"} 1"));
  request.usage.recall = engine::Recall{
      .mean = 0.625, .p5 = 0.25, .steps = 5, .complete = true, .layer_means = {1, 0.5, 0.25, 0.75}};
  metrics.OnRequestEnd(request);
  request.usage.recall->complete = false;
  metrics.OnRequestEnd(request);
  const std::string page = metrics.Page();
  EXPECT_TRUE(Has(page, line("count", "first", "4")));
  EXPECT_TRUE(Has(page, line("sum", "first", "3")));
  EXPECT_TRUE(Has(page, line("sum", "middle", "0.5")));
  EXPECT_TRUE(Has(page, line("sum", "last", "1.5")));
  EXPECT_TRUE(Has(page, "hydrant_audits_ended_early_total{model_name=\"m\"} 2"));
}

std::string HttpGet(int port, const std::string& path) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  const std::string request =
      absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(write(fd, request.data(), request.size()), static_cast<ssize_t>(request.size()));
  std::string reply;
  char buffer[4096];
  for (ssize_t n; (n = read(fd, buffer, sizeof(buffer))) > 0;) reply.append(buffer, n);
  close(fd);
  return reply;
}

TEST(MetricsExposerTest, ServesThePage) {
  Metrics metrics("m", MetricNames::kHydrant);
  metrics.OnStep({.generated_tokens = 4});
  auto exposer = MetricsExposer::Start("127.0.0.1:0", metrics);
  ASSERT_TRUE(exposer.ok()) << exposer.status();
  const std::string reply = HttpGet((*exposer)->port(), "/metrics");
  EXPECT_EQ(reply.rfind("HTTP/1.1 200", 0), 0u) << reply;
  EXPECT_NE(reply.find("hydrant_generation_tokens_total{model_name=\"m\"} 4"), std::string::npos);
  EXPECT_NE(reply.find("hydrant_num_requests_running{model_name=\"m\"} 0"), std::string::npos);
}

TEST(MetricsExposerTest, ATakenPortIsAClearError) {
  Metrics metrics("m", MetricNames::kHydrant);
  auto first = MetricsExposer::Start("127.0.0.1:0", metrics);
  ASSERT_TRUE(first.ok());
  const std::string address = absl::StrCat("127.0.0.1:", (*first)->port());
  auto second = MetricsExposer::Start(address, metrics);
  ASSERT_FALSE(second.ok());
  const std::string message(second.status().message());
  EXPECT_NE(message.find(address), std::string::npos) << message;
  EXPECT_NE(message.find("Address already in use"), std::string::npos) << message;
}

}  // namespace
}  // namespace hydrant::server
