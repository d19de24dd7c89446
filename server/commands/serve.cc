#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "server/byte_size.h"
#include "server/commands/commands.h"
#include "server/drain.h"
#include "server/grpc_server.h"
#include "server/load_progress.h"
#include "server/metrics.h"
#include "server/serve_options.h"
#include "server/signals.h"

namespace hydrant::server {
namespace {

constexpr std::chrono::milliseconds kPoll(100);

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "hydrant: %s\n", std::string(status.message()).c_str());
  return 1;
}

void PrintLoaded(const engine::ModelInfo& info) {
  std::fprintf(
      stderr,
      "hydrant: %s: %s, %.1f M parameters, context %d, %s weights of %s on %s\n"
      "hydrant: KV cache: %s in %d blocks of %d tokens, %s a token in %s\n",
      info.name.c_str(), info.architecture.c_str(), static_cast<double>(info.parameters) / 1e6,
      info.max_model_len, info.weight_dtype.c_str(), FormatByteSize(info.weight_bytes).c_str(),
      info.backend.c_str(), FormatByteSize(info.kv_cache_bytes).c_str(), info.kv_blocks,
      info.block_slots, FormatByteSize(info.kv_bytes_per_token).c_str(), info.kv_dtype.c_str());
}

// Health follows the engine until a signal comes.
void ServeUntilSignal(Signals& signals, GrpcServer& server, const engine::Engine& engine) {
  bool healthy = true;
  while (!signals.Wait(kPoll)) {
    if (healthy == engine.load().healthy) continue;
    healthy = !healthy;
    server.SetServing(healthy);
    std::fprintf(stderr, "hydrant: the engine is %s\n", healthy ? "healthy again" : "dead");
  }
}

int Run(const ServeOptions& options, Signals& signals) {
  auto metrics = std::make_shared<Metrics>(options.engine.model_name, options.metric_names);
  std::unique_ptr<MetricsExposer> exposer;
  if (options.metrics_listen != "off") {
    auto started = MetricsExposer::Start(options.metrics_listen, *metrics);
    if (!started.ok()) return Fail(started.status());
    exposer = *std::move(started);
    std::fprintf(stderr, "hydrant: metrics at http://%s/metrics\n", options.metrics_listen.c_str());
  }
  auto server = GrpcServer::Start(options.listen, *metrics, options.grpc);
  if (!server.ok()) return Fail(server.status());
  std::fprintf(stderr, "hydrant: gRPC listens on %s\n", options.listen.c_str());

  std::future<absl::StatusOr<std::unique_ptr<engine::Engine>>> loading =
      std::async(std::launch::async, [&] {
        LoadProgress progress;
        return engine::Engine::Load(options.engine, metrics,
                                    [&](std::string_view stage, double ratio) {
                                      progress.Report(stage, ratio);
                                      metrics->SetLoadProgress(ratio);
                                    });
      });
  while (loading.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    if (signals.Wait(kPoll)) {
      std::fprintf(stderr, "\nhydrant: stopped while loading\n");
      std::_Exit(0);  // loading cannot be interrupted, and nothing has to be kept
    }
  }
  auto loaded = loading.get();
  if (!loaded.ok()) {
    (*server)->Shutdown(std::chrono::system_clock::now());
    return Fail(loaded.status());
  }
  const std::shared_ptr<engine::Engine> engine = *std::move(loaded);
  metrics->SetEngine(engine);
  (*server)->SetEngine(engine);
  (*server)->SetServing(true);
  PrintLoaded(engine->model_info());
  std::fprintf(stderr, "hydrant: serving\n");

  ServeUntilSignal(signals, **server, *engine);
  const engine::LoadStats load = engine->load();
  std::fprintf(stderr,
               "hydrant: draining: %d running, %d waiting, at most %g s; a second signal exits at "
               "once\n",
               load.running, load.waiting, options.drain_timeout.count());
  std::future<void> drained = std::async(
      std::launch::async, [&] { Drain(**server, *engine, *metrics, options.drain_timeout); });
  while (drained.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    if (const auto signal = signals.Wait(kPoll)) std::_Exit(128 + *signal);
  }
  std::fprintf(stderr, "hydrant: stopped\n");
  return 0;
}

}  // namespace

int Serve(const Arguments& arguments) {
  auto parsed = ParseServeOptions(arguments);
  if (const int* exit_code = std::get_if<int>(&parsed)) return *exit_code;
  ServeOptions options = std::get<ServeOptions>(std::move(parsed));
  if (options.engine.model_name.empty()) {
    options.engine.model_name = engine::DefaultModelName(options.engine.model_path);
  }
  Signals signals;
  std::fprintf(stderr, "hydrant %s serve\n%s", HYDRANT_VERSION, options.description.c_str());
  return Run(options, signals);
}

}  // namespace hydrant::server
