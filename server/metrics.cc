#include "server/metrics.h"

#include <prometheus/collectable.h>
#include <prometheus/counter.h>
#include <prometheus/exposer.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/listen_address.h"

namespace hydrant::server {
namespace {

using engine::EvictionPolicyKind;
using engine::RequestOutcome;
using Buckets = prometheus::Histogram::BucketBoundaries;
using Labels = prometheus::Labels;

const Buckets kRequestSeconds = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,   2.5,
                                 5,     10,   20,    30,   60,  120,  300, 600, 1800};
const Buckets kFirstTokenSeconds = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5,
                                    0.75,  1,     2.5,  5,    7.5,  10,   20,   40,  80,   160};
const Buckets kInterTokenSeconds = {0.001, 0.0025, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.025,
                                    0.03,  0.04,   0.05,  0.075,  0.1,  0.15,  0.2,  0.3,
                                    0.4,   0.5,    0.75,  1,      2.5,  5,     10};
const Buckets kRequestTokens = {1,    2,    5,    10,    20,    50,    100,    200,   500,
                                1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000};
const Buckets kPowersOfTwo = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192};
const Buckets kBatchSizes = {1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024};
const Buckets kRecalls = {0.1, 0.25, 0.5, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999};
const Buckets kRatios = {0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.999999};

const char* PolicyName(EvictionPolicyKind policy) {
  switch (policy) {
    case EvictionPolicyKind::kFull:
      return "full";
    case EvictionPolicyKind::kWindow:
      return "window";
    case EvictionPolicyKind::kStreaming:
      return "streaming";
    case EvictionPolicyKind::kH2O:
      return "h2o";
  }
  return "unknown";
}

// Thirds of the model: early layers look elsewhere than late ones.
constexpr std::array<const char*, 3> kLayerGroups = {"first", "middle", "last"};

// vLLM's values; deadline and queue_timeout are ours.
const char* OutcomeName(RequestOutcome outcome) {
  switch (outcome) {
    case RequestOutcome::kStop:
      return "stop";
    case RequestOutcome::kLength:
      return "length";
    case RequestOutcome::kCancelled:
      return "abort";
    case RequestOutcome::kDeadline:
      return "deadline";
    case RequestOutcome::kQueueTimeout:
      return "queue_timeout";
    case RequestOutcome::kError:
      return "error";
  }
  return "unknown";
}

}  // namespace

struct Metrics::Series : prometheus::Collectable {
  Series(std::string model_name, MetricNames names)
      : prefix(names == MetricNames::kVllm ? "vllm:" : "hydrant_"),
        labels{{"model_name", std::move(model_name)}} {}

  prometheus::Family<prometheus::Counter>& Counters(const char* name, const char* help) {
    return prometheus::BuildCounter()
        .Name(prefix + name)
        .Help(help)
        .Labels(labels)
        .Register(registry);
  }
  prometheus::Counter& Counter(const char* name, const char* help) {
    return Counters(name, help).Add({});
  }
  prometheus::Family<prometheus::Histogram>& Histograms(const char* name, const char* help) {
    return prometheus::BuildHistogram()
        .Name(prefix + name)
        .Help(help)
        .Labels(labels)
        .Register(registry);
  }
  prometheus::Histogram& Histogram(const char* name, const char* help, const Buckets& buckets) {
    return Histograms(name, help).Add({}, buckets);
  }
  // By the policy that evicted, and the third of the layers.
  prometheus::Histogram& Recall(EvictionPolicyKind policy, size_t group) {
    return attention_recall.Add({{"policy", PolicyName(policy)}, {"layers", kLayerGroups[group]}},
                                kRecalls);
  }

  std::vector<prometheus::MetricFamily> Collect() const override;

  const std::string prefix;
  const Labels labels;
  prometheus::Registry registry;

  prometheus::Counter& prompt_tokens =
      Counter("prompt_tokens_total", "Prompt tokens processed, recomputed ones included.");
  prometheus::Counter& generation_tokens = Counter("generation_tokens_total", "Tokens generated.");
  prometheus::Counter& preemptions = Counter(
      "num_preemptions_total", "Times a running sequence was taken off for lack of blocks.");
  prometheus::Family<prometheus::Counter>& request_success =
      Counters("request_success_total", "Requests that ended, by how.");
  prometheus::Family<prometheus::Counter>& evicted_tokens =
      Counters("kv_evicted_tokens_total", "Tokens evicted, for each layer and KV head.");
  prometheus::Counter& blocks_freed =
      Counter("kv_blocks_freed_by_eviction_total", "KV blocks that eviction returned to the pool.");
  prometheus::Counter& received = Counter(
      "requests_received_total",
      "Generate calls that came. Each ends in request_success_total or requests_rejected_total.");
  prometheus::Family<prometheus::Counter>& rejected = Counters(
      "requests_rejected_total",
      "Requests refused before they were queued, by reason; unauthenticated: calls of any method.");
  prometheus::Counter& cancelled =
      Counter("requests_cancelled_total",
              "Requests that ended because the client left or aborted them: those whose "
              "finished_reason is abort.");

  prometheus::Histogram& time_to_first_token = Histogram(
      "time_to_first_token_seconds", "From submission to the first token.", kFirstTokenSeconds);
  prometheus::Histogram& inter_token = Histogram(
      "inter_token_latency_seconds", "Between two tokens of a request.", kInterTokenSeconds);
  prometheus::Histogram& e2e = Histogram(
      "e2e_request_latency_seconds", "From submission to the end of a request.", kRequestSeconds);
  prometheus::Histogram& queue_time =
      Histogram("request_queue_time_seconds", "Time a request waited.", kRequestSeconds);
  prometheus::Histogram& prefill_time =
      Histogram("request_prefill_time_seconds", "Time a request's prompt took.", kRequestSeconds);
  prometheus::Histogram& decode_time =
      Histogram("request_decode_time_seconds", "Time a request generated.", kRequestSeconds);
  prometheus::Histogram& request_prompt_tokens =
      Histogram("request_prompt_tokens", "Prompt tokens of a request.", kRequestTokens);
  prometheus::Histogram& request_generation_tokens =
      Histogram("request_generation_tokens", "Tokens that a request generated.", kRequestTokens);
  // A histogram despite its suffix: this is vLLM's name for it.
  prometheus::Histogram& iteration_tokens =
      Histogram("iteration_tokens_total", "Tokens in a step of the engine.", kPowersOfTwo);
  prometheus::Histogram& batch_size =
      Histogram("batch_size", "Sequences in a step of the engine.", kBatchSizes);
  prometheus::Histogram& retained_ratio =
      Histogram("request_kv_retained_ratio",
                "Share of a request's tokens whose KV was held at its end.", kRatios);

  prometheus::Family<prometheus::Histogram>& attention_recall = Histograms(
      "attention_recall",
      "Mean over an audited request of the share of attention that fell on tokens held, by layer.");
  prometheus::Counter& audits_ended_early = Counter(
      "audits_ended_early_total", "Audits whose memory was full before their request ended.");

  std::atomic<int> last_batch_size{0};
  std::atomic<int> streams{0};
  std::atomic<double> load_progress{0};

  mutable std::mutex engine_mutex;
  std::weak_ptr<const engine::Engine> engine;
};

std::vector<prometheus::MetricFamily> Metrics::Series::Collect() const {
  std::shared_ptr<const engine::Engine> live;
  {
    std::lock_guard lock(engine_mutex);
    live = engine.lock();
  }
  const engine::LoadStats load = live ? live->load() : engine::LoadStats{};
  const int64_t cache_bytes = live ? live->model_info().kv_cache_bytes : 0;
  const int used = load.kv_blocks_total - load.kv_blocks_free;

  std::vector<prometheus::MetricFamily> families;
  const auto gauges = [&](const char* name, const char* help,
                          const std::vector<std::pair<Labels, double>>& values) {
    prometheus::MetricFamily family{prefix + name, help, prometheus::MetricType::Gauge, {}};
    for (const auto& [own, value] : values) {
      prometheus::ClientMetric metric;
      for (const auto& [key, text] : labels) metric.label.push_back({key, text});
      for (const auto& [key, text] : own) metric.label.push_back({key, text});
      metric.gauge.value = value;
      family.metric.push_back(std::move(metric));
    }
    families.push_back(std::move(family));
  };
  const auto gauge = [&](const char* name, const char* help, double value) {
    gauges(name, help, {{{}, value}});
  };
  gauge("num_requests_running", "Requests in the batch.", load.running);
  gauge("num_requests_waiting", "Requests in the queue.", load.waiting);
  gauge("num_tokens_waiting", "Prompt tokens of the requests in the queue.",
        static_cast<double>(load.waiting_tokens));
  gauge("kv_cache_usage_perc", "Share of the KV blocks in use, 0 to 1.",
        load.kv_blocks_total > 0 ? static_cast<double>(used) / load.kv_blocks_total : 0);
  gauges("kv_blocks", "KV blocks by state; their sum is the pool.",
         {{{{"state", "used"}}, static_cast<double>(used)},
          {{{"state", "free"}}, static_cast<double>(load.kv_blocks_free)}});
  gauge("kv_cache_bytes", "Size of the KV pool.", static_cast<double>(cache_bytes));
  if (live) {
    // vLLM's name and labels, by which endpoint pickers learn the pool's shape.
    gauges("cache_config_info", "The shape of the KV pool, in labels; 1.",
           {{{{"block_size", std::to_string(live->model_info().block_slots)},
              {"num_gpu_blocks", std::to_string(live->model_info().kv_blocks)}},
             1}});
  }
  gauge("audit_memory_used_bytes", "Memory that audits hold for evicted keys.",
        static_cast<double>(load.audit_bytes_used));
  gauge("audit_memory_limit_bytes", "The most that audits may hold together.",
        static_cast<double>(load.audit_bytes_limit));
  gauge("batch_size_current", "Sequences in the newest step; 0 when nothing runs.",
        load.running > 0 ? last_batch_size.load() : 0);
  gauge("grpc_streams_active", "Generate streams that are open.", streams);
  gauge("engine_last_step_timestamp_seconds", "When the engine last ended a step.",
        static_cast<double>(load.last_step_unix_ms) / 1000);
  gauge("model_load_progress_ratio", "Share of the model's loading that is done, 0 to 1.",
        load_progress);
  return families;
}

Metrics::Metrics(std::string model_name, MetricNames names)
    : series_(std::make_shared<Series>(std::move(model_name), names)) {
  // Known label values exist from the start, so that rates can be taken of them.
  for (RequestOutcome outcome :
       {RequestOutcome::kStop, RequestOutcome::kLength, RequestOutcome::kCancelled,
        RequestOutcome::kDeadline, RequestOutcome::kQueueTimeout, RequestOutcome::kError}) {
    series_->request_success.Add({{"finished_reason", OutcomeName(outcome)}});
  }
  for (EvictionPolicyKind policy :
       {EvictionPolicyKind::kWindow, EvictionPolicyKind::kStreaming, EvictionPolicyKind::kH2O}) {
    series_->evicted_tokens.Add({{"policy", PolicyName(policy)}});
    for (size_t group = 0; group < kLayerGroups.size(); ++group) series_->Recall(policy, group);
  }
  for (const char* reason :
       {"queue_full", "invalid_argument", "draining", "loading", "duplicate_id", "unknown_model",
        "unimplemented", "deadline", "tenant_requests", "tenant_tokens", "unauthenticated"}) {
    series_->rejected.Add({{"reason", reason}});
  }
}

Metrics::~Metrics() = default;

void Metrics::SetEngine(std::weak_ptr<const engine::Engine> engine) {
  std::lock_guard lock(series_->engine_mutex);
  series_->engine = std::move(engine);
}

void Metrics::SetLoadProgress(double ratio) {
  series_->load_progress = std::clamp(ratio, 0.0, 1.0);
}

void Metrics::StreamOpened() {
  series_->received.Increment();
  ++series_->streams;
}
void Metrics::StreamClosed() { --series_->streams; }
int Metrics::streams_active() const { return series_->streams; }

std::string Metrics::Page() const {
  std::vector<prometheus::MetricFamily> families = series_->registry.Collect();
  std::vector<prometheus::MetricFamily> gauges = series_->Collect();
  families.insert(families.end(), std::make_move_iterator(gauges.begin()),
                  std::make_move_iterator(gauges.end()));
  return prometheus::TextSerializer().Serialize(families);
}

void Metrics::OnStep(const engine::StepStats& step) {
  series_->prompt_tokens.Increment(step.prefill_tokens);
  series_->generation_tokens.Increment(step.generated_tokens);
  series_->preemptions.Increment(step.preemptions);
  series_->iteration_tokens.Observe(step.num_tokens);
  series_->batch_size.Observe(step.batch_size);
  series_->last_batch_size = step.batch_size;
}

void Metrics::OnEviction(const engine::EvictionStats& eviction) {
  series_->evicted_tokens.Add({{"policy", PolicyName(eviction.policy)}})
      .Increment(static_cast<double>(eviction.tokens));
  series_->blocks_freed.Increment(eviction.blocks_freed);
}

void Metrics::OnFirstToken(double seconds) { series_->time_to_first_token.Observe(seconds); }
void Metrics::OnInterToken(double seconds) { series_->inter_token.Observe(seconds); }

void Metrics::OnRequestEnd(const engine::RequestStats& request) {
  const engine::Usage& usage = request.usage;
  series_->request_success.Add({{"finished_reason", OutcomeName(request.outcome)}}).Increment();
  if (request.outcome == RequestOutcome::kCancelled) series_->cancelled.Increment();
  series_->e2e.Observe(request.e2e_seconds);
  series_->queue_time.Observe(usage.queue_seconds);
  series_->request_prompt_tokens.Observe(usage.prompt_tokens);
  if (usage.recall && !usage.recall->complete) series_->audits_ended_early.Increment();
  // A request that ended before its first token has no figures of what comes with it and after.
  const bool completed =
      request.outcome == RequestOutcome::kStop || request.outcome == RequestOutcome::kLength;
  if (!completed && !request.time_to_first_token) return;
  series_->prefill_time.Observe(usage.prefill_seconds);
  series_->decode_time.Observe(usage.decode_seconds);
  series_->request_generation_tokens.Observe(usage.completion_tokens);
  // What is not known is not observed.
  if (usage.recall && (usage.recall->complete || usage.recall->steps > 0)) {
    const std::vector<double>& layers = usage.recall->layer_means;
    for (size_t i = 0; i < layers.size(); ++i) {
      series_->Recall(request.eviction.policy, i * kLayerGroups.size() / layers.size())
          .Observe(layers[i]);
    }
  }
  const double tokens = usage.prompt_tokens + usage.completion_tokens;
  if (tokens > 0) series_->retained_ratio.Observe(1 - usage.evicted_tokens / tokens);
}

void Metrics::OnRejected(std::string_view reason) {
  series_->rejected.Add({{"reason", std::string(reason)}}).Increment();
}

// The exposer's destructor stops its threads, so the series need only outlive it.
struct MetricsExposer::Impl {
  explicit Impl(const std::string& address) : exposer(address) {}
  std::shared_ptr<Metrics::Series> series;
  std::shared_ptr<prometheus::Collectable> registry;
  prometheus::Exposer exposer;
};

MetricsExposer::MetricsExposer() = default;
MetricsExposer::~MetricsExposer() = default;

absl::StatusOr<std::unique_ptr<MetricsExposer>> MetricsExposer::Start(const std::string& address,
                                                                      const Metrics& metrics) {
  if (absl::Status status = CheckListenAddress(address); !status.ok()) return status;
  auto exposer = std::unique_ptr<MetricsExposer>(new MetricsExposer);
  try {
    exposer->impl_ = std::make_unique<Impl>(address);
  } catch (const std::exception&) {
    return absl::UnavailableError(
        absl::StrCat("cannot serve metrics on ", address, ": ", WhyCannotListen(address)));
  }
  Impl& impl = *exposer->impl_;
  impl.series = metrics.series_;
  // Shares the series' life, points to its registry.
  impl.registry = std::shared_ptr<prometheus::Collectable>(impl.series, &impl.series->registry);
  impl.exposer.RegisterCollectable(impl.series);
  impl.exposer.RegisterCollectable(impl.registry);
  return exposer;
}

int MetricsExposer::port() const { return impl_->exposer.GetListeningPorts().at(0); }

}  // namespace hydrant::server
