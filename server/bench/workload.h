// What the flags ask for, made ready to run.

#ifndef HYDRANT_SERVER_BENCH_WORKLOAD_H_
#define HYDRANT_SERVER_BENCH_WORKLOAD_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "hydrant/v1/generation.pb.h"
#include "server/bench/arrivals.h"
#include "server/bench/bench_options.h"
#include "server/bench/client.h"
#include "server/bench/load_driver.h"
#include "server/bench/request_source.h"
#include "server/bench/trace.h"

namespace hydrant::server::bench {

struct InputFiles {
  std::string text;                 // of --prompts
  std::vector<TraceRequest> trace;  // of --trace
};
// Errors name the file, and the line of a trace.
absl::StatusOr<InputFiles> ReadFiles(const BenchOptions& options);

struct Workload {
  std::unique_ptr<RequestSource> source;
  std::unique_ptr<Arrivals> arrivals;
  std::vector<LoadStep> steps;  // empty: as a trace says
  LoadLimits limits;
  std::string load, requests;  // in words
};
// `client`: tokenises the text.
absl::StatusOr<Workload> MakeWorkload(const BenchOptions& options, InputFiles files,
                                      const v1::GetModelInfoResponse& model, Client& client);

}  // namespace hydrant::server::bench

#endif  // HYDRANT_SERVER_BENCH_WORKLOAD_H_
