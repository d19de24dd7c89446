// The flags of `hydrant bench`, parsed once.

#ifndef HYDRANT_SERVER_BENCH_BENCH_OPTIONS_H_
#define HYDRANT_SERVER_BENCH_BENCH_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "hydrant/v1/generation.pb.h"
#include "server/bench/report.h"
#include "server/bench/request_source.h"
#include "server/security/client_credentials.h"

namespace hydrant::server::bench {

enum class LoadKind { kConcurrency, kRate, kTrace };

struct BenchOptions {
  std::string address;
  ClientSecurity security;
  LoadKind load = LoadKind::kConcurrency;
  double from = 1, to = 1;  // at once, or a second; the same: no ramp
  int32_t ramp_steps = 8;
  std::optional<int64_t> requests;  // neither this nor that only for a trace: all of it
  std::optional<double> duration;   // seconds
  int64_t warmup = 1;
  Range prompt_tokens = {128, 128};
  Range max_tokens = {128, 128};
  std::string text_path;   // cut into prompts
  std::string trace_path;  // with any kind of load
  v1::GenerateRequest message;
  uint64_t seed = 1;
  std::optional<double> timeout;  // seconds
  double wait = 0;                // seconds
  std::optional<SloTarget> slo;
  std::string json_path, plot_path;
  std::string command;  // the command line

  bool is_ramp() const { return from != to; }
};

// Options, or the exit code when there is nothing to do (--help, or an error, both printed).
std::variant<BenchOptions, int> ParseBenchOptions(const std::vector<std::string>& args);

}  // namespace hydrant::server::bench

#endif  // HYDRANT_SERVER_BENCH_BENCH_OPTIONS_H_
