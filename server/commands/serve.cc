#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "server/byte_size.h"
#include "server/commands/commands.h"
#include "server/drain.h"
#include "server/grpc_server.h"
#include "server/library_log.h"
#include "server/load_progress.h"
#include "server/log.h"
#include "server/metrics.h"
#include "server/serve_options.h"
#include "server/signals.h"
#include "server/watchdog.h"

namespace hydrant::server {
namespace {

constexpr std::chrono::milliseconds kWatchInterval(100);
// For probes and gateways to see that this server is dead before it is gone.
constexpr std::chrono::seconds kLastWords(1);
constexpr int kStuckExit = 70;  // sysexits.h: internal software error

int Fail(const Log& log, const absl::Status& status) {
  log.Error(std::string(status.message()));
  return 1;
}

void TellConfiguration(const Log& log, const std::vector<FlagSetting>& flags) {
  if (log.format() == LogFormat::kText) {
    std::fprintf(stderr, "hydrant %s serve\n", HYDRANT_VERSION);
    for (const FlagSetting& flag : flags) {
      std::fprintf(stderr, "  --%s=%s%s\n", flag.name.c_str(), flag.value.c_str(),
                   flag.is_default ? "  (default)" : "");
    }
    return;
  }
  LogFields fields = {{"version", std::string(HYDRANT_VERSION)}};
  for (const FlagSetting& flag : flags) fields.push_back({"--" + flag.name, flag.value});
  log.Info("configuration", fields);
}

void TellLoaded(const Log& log, const engine::ModelInfo& info) {
  if (log.format() == LogFormat::kText) {
    log.Info(absl::StrFormat("%s: %s, %.1f M parameters, context %d, %s weights of %s on %s",
                             info.name, info.architecture,
                             static_cast<double>(info.parameters) / 1e6, info.max_model_len,
                             info.weight_dtype, FormatByteSize(info.weight_bytes), info.backend));
    log.Info(absl::StrFormat("KV cache: %s in %d blocks of %d tokens, %s a token in %s",
                             FormatByteSize(info.kv_cache_bytes), info.kv_blocks, info.block_slots,
                             FormatByteSize(info.kv_bytes_per_token), info.kv_dtype));
    return;
  }
  log.Info("the model is loaded", {{"model", info.name},
                                   {"architecture", info.architecture},
                                   {"parameters", info.parameters},
                                   {"context", int64_t{info.max_model_len}},
                                   {"weight_dtype", info.weight_dtype},
                                   {"weight_bytes", info.weight_bytes},
                                   {"backend", info.backend},
                                   {"kv_cache_dtype", info.kv_dtype},
                                   {"kv_cache_bytes", info.kv_cache_bytes},
                                   {"kv_blocks", int64_t{info.kv_blocks}}});
}

// A thread that does not come back cannot be ended, nor can what waits for it.
[[noreturn]] void EndStuck(const Log& log, GrpcServer& server, engine::Engine& engine,
                           std::chrono::duration<double> step_timeout) {
  engine.GiveUp();
  server.SetServing(false);
  server.SetAlive(false);
  log.Error("a step of the engine does not end: giving up",
            {{"step", engine.load().steps_begun}, {"step_timeout_seconds", step_timeout.count()}});
  std::this_thread::sleep_for(kLastWords);
  std::_Exit(kStuckExit);
}

int Run(const ServeOptions& options, Signals& signals, const Log& log) {
  auto metrics = std::make_shared<Metrics>(options.engine.model_name, options.metric_names);
  std::unique_ptr<MetricsExposer> exposer;
  if (options.metrics_listen != "off") {
    auto started = MetricsExposer::Start(options.metrics_listen, *metrics);
    if (!started.ok()) return Fail(log, started.status());
    exposer = *std::move(started);
    log.Info("metrics at http://" + options.metrics_listen + "/metrics");
  }
  GenerationOptions generation = options.generation;
  generation.log = &log;
  auto server = GrpcServer::Start(options.listen, *metrics, generation, options.grpc);
  if (!server.ok()) return Fail(log, server.status());
  log.Info("gRPC listens on " + options.listen);

  std::future<absl::StatusOr<std::unique_ptr<engine::Engine>>> loading =
      std::async(std::launch::async, [&] {
        LoadProgress progress(log);
        return engine::Engine::Load(options.engine, metrics,
                                    [&](std::string_view stage, double ratio) {
                                      progress.Report(stage, ratio);
                                      metrics->SetLoadProgress(ratio);
                                    });
      });
  while (loading.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    if (signals.Wait(kWatchInterval)) {
      log.Info("stopped while loading");
      std::_Exit(0);  // loading cannot be interrupted, and nothing has to be kept
    }
  }
  auto loaded = loading.get();
  if (!loaded.ok()) {
    (*server)->Shutdown(std::chrono::system_clock::now());
    return Fail(log, loaded.status());
  }
  const std::shared_ptr<engine::Engine> engine = *std::move(loaded);
  metrics->SetEngine(engine);
  (*server)->SetEngine(engine);
  (*server)->SetServing(true);
  TellLoaded(log, engine->model_info());
  log.Info("serving");

  Watchdog watchdog(options.step_timeout);
  const auto watch = [&] {
    if (!watchdog.Stuck(engine->load(), Watchdog::Clock::now())) return;
    EndStuck(log, **server, *engine, options.step_timeout);
  };
  while (!signals.Wait(kWatchInterval)) watch();
  const engine::LoadStats load = engine->load();
  log.Info("draining; a second signal exits at once",
           {{"running", int64_t{load.running}},
            {"waiting", int64_t{load.waiting}},
            {"drain_timeout_seconds", options.drain_timeout.count()}});
  std::future<void> drained = std::async(
      std::launch::async, [&] { Drain(**server, *engine, *metrics, options.drain_timeout); });
  while (drained.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    if (const auto signal = signals.Wait(kWatchInterval)) std::_Exit(128 + *signal);
    watch();
  }
  log.Info("stopped");
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
  const Log log(options.log_format);
  SetLibraryLog(options.log_format);
  TellConfiguration(log, options.effective);
  return Run(options, signals, log);
}

}  // namespace hydrant::server
