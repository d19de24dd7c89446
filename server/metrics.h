// What Prometheus sees (DESIGN, section 6). Counters and histograms are fed by the engine's hooks;
// gauges are read from the engine when the page is scraped, so that they are right after anything.
//
// Names have the prefix "hydrant_", or vLLM's "vllm:"; every series carries the label model_name.
//
// Every Generate call ends in exactly one terminal counter. When no stream is open,
//   requests_received_total = the sum of request_success_total over finished_reason
//                           + the sum of requests_rejected_total over reason, but unauthenticated:
// those are turned away before anybody knows what they call. requests_cancelled_total is not one
// more: it repeats the finished_reason "abort".

#ifndef HYDRANT_SERVER_METRICS_H_
#define HYDRANT_SERVER_METRICS_H_

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/engine.h"

namespace hydrant::server {

enum class MetricNames { kHydrant, kVllm };

// All methods may be called from any thread.
class Metrics : public engine::EngineObserver {
 public:
  Metrics(std::string model_name, MetricNames names);
  ~Metrics() override;

  // The engine is read while it lives; before and after, its gauges are 0.
  void SetEngine(std::weak_ptr<const engine::Engine> engine);
  void SetLoadProgress(double ratio);
  // A Generate call has come, and is over.
  void StreamOpened();
  void StreamClosed();
  int streams_active() const;

  // The page as it would be scraped now, in the text format.
  std::string Page() const;

  void OnStep(const engine::StepStats& step) override;
  void OnEviction(const engine::EvictionStats& eviction) override;
  void OnFirstToken(double seconds_since_submit) override;
  void OnInterToken(double seconds) override;
  void OnRequestEnd(const engine::RequestStats& request) override;
  void OnRejected(std::string_view reason) override;

 private:
  friend class MetricsExposer;
  struct Series;
  std::shared_ptr<Series> series_;
};

// Serves the page of `metrics` at http://address/metrics.
class MetricsExposer {
 public:
  // Errors name the address and the reason.
  static absl::StatusOr<std::unique_ptr<MetricsExposer>> Start(const std::string& address,
                                                               const Metrics& metrics);
  ~MetricsExposer();
  int port() const;

 private:
  MetricsExposer();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hydrant::server

#endif  // HYDRANT_SERVER_METRICS_H_
