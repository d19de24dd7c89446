// The flags of `hydrant serve`, parsed once.

#ifndef HYDRANT_SERVER_SERVE_OPTIONS_H_
#define HYDRANT_SERVER_SERVE_OPTIONS_H_

#include <chrono>
#include <string>
#include <variant>
#include <vector>

#include "engine/engine.h"
#include "server/flag_setting.h"
#include "server/generation_options.h"
#include "server/log.h"
#include "server/metrics.h"
#include "server/security/grpc_server_options.h"

namespace hydrant::server {

struct ServeOptions {
  engine::EngineOptions engine;
  GrpcServerOptions grpc;
  std::string listen = "0.0.0.0:50051";
  std::string metrics_listen = "0.0.0.0:9400";  // "off": none
  std::chrono::duration<double> drain_timeout{30};
  MetricNames metric_names = MetricNames::kHydrant;
  std::chrono::duration<double> step_timeout{120};  // 0: a step may take for ever
  GenerationOptions generation;                     // `log` is the caller's to set
  LogFormat log_format = LogFormat::kText;
  std::vector<FlagSetting> effective;  // what all of this comes from
};

// Options, or the exit code when there is nothing to serve (--help, or an error, both printed).
std::variant<ServeOptions, int> ParseServeOptions(const std::vector<std::string>& args);

}  // namespace hydrant::server

#endif  // HYDRANT_SERVER_SERVE_OPTIONS_H_
