// A measurement and the figures made of it; written as text, JSON and SVG. No gRPC, no clock.

#ifndef HYDRANT_SERVER_BENCH_REPORT_H_
#define HYDRANT_SERVER_BENCH_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hydrant/v1/generation.pb.h"
#include "server/bench/arrivals.h"
#include "server/bench/request_record.h"
#include "server/bench/slo.h"
#include "server/bench/statistics.h"

namespace hydrant::server::bench {

// What the server said of itself at one time.
struct LoadSample {
  double seconds = 0;
  int32_t running = 0, waiting = 0, kv_blocks = 0;
};

struct SloTarget {
  Slo limits;
  double share = 0;  // of all requests, that must be within them
};

struct Measurement {
  std::string address;
  std::string command;   // the command line
  std::string started;   // UTC, ISO 8601
  std::string load;      // in words
  std::string requests;  // in words
  v1::GetModelInfoResponse model;
  std::optional<SloTarget> slo;
  std::vector<LoadStep> steps;  // more than one: a ramp
  double sending_seconds = 0;   // of a ramp: when its last step ended
  std::vector<RequestRecord> records;
  std::vector<LoadSample> samples;
  bool interrupted = false;
  double client_cpu_seconds = 0;
};

struct Report {
  explicit Report(Measurement measurement);

  // Whether there is no SLO, or it was met.
  bool SloMet() const;
  int64_t KvBytes(int32_t blocks) const;

  Measurement run;
  Summary total;               // to the end of the last request
  std::vector<Summary> steps;  // of a ramp
  LoadSample peak;             // each field's highest
  double mean_running = 0;     // over the samples
  double bin_seconds = 0;
  std::vector<int64_t> output_tokens;  // that arrived in each bin
};

std::string ReportText(const Report& report);
std::string ReportJson(const Report& report);
// Self-contained: no script, no font, no link.
std::string ReportSvg(const Report& report);

}  // namespace hydrant::server::bench

#endif  // HYDRANT_SERVER_BENCH_REPORT_H_
