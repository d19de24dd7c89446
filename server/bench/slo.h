// A service level objective: what a request's times must be, and for which share of all requests.

#ifndef HYDRANT_SERVER_BENCH_SLO_H_
#define HYDRANT_SERVER_BENCH_SLO_H_

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/bench/request_record.h"

namespace hydrant::server::bench {

// The times of one request that completed, in seconds.
struct RequestTimes {
  explicit RequestTimes(const RequestRecord& record);
  double e2e = 0;              // from when it was due to the stream's end
  std::optional<double> ttft;  // to the first token; no token: none
  std::optional<double> tpot;  // mean time a token after the first message; one message: none
  std::optional<double> longest_gap;  // between two messages with tokens
};

// Limits in seconds; each holds for every request by itself.
struct Slo {
  std::optional<double> ttft;
  std::optional<double> itl;  // of the longest gap
  std::optional<double> tpot;
  std::optional<double> e2e;

  // "ttft=200ms,itl=50ms"; at least one of ttft, itl, tpot and e2e, each once and above 0.
  static absl::StatusOr<Slo> Parse(std::string_view text);
  std::string ToString() const;  // as Parse reads it
  // False unless the request completed and has what is limited within its limits.
  bool IsMetBy(const RequestRecord& record) const;
};

}  // namespace hydrant::server::bench

#endif  // HYDRANT_SERVER_BENCH_SLO_H_
