// What became of one request of a measurement.

#ifndef HYDRANT_SERVER_BENCH_REQUEST_RECORD_H_
#define HYDRANT_SERVER_BENCH_REQUEST_RECORD_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "hydrant/v1/generation.pb.h"

namespace hydrant::server::bench {

// Seconds since the measurement began.
class Clock {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  double Now() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }
  TimePoint At(double seconds) const {
    return begin_ +
           std::chrono::duration_cast<TimePoint::duration>(std::chrono::duration<double>(seconds));
  }

 private:
  TimePoint begin_ = std::chrono::steady_clock::now();
};

// A message with tokens; most hold one.
struct TokenArrival {
  double seconds = 0;
  int32_t tokens = 0;
};

// Times are Clock's.
struct RequestRecord {
  double scheduled = 0;  // when it was due; latencies count from here
  double sent = 0;
  double ended = 0;
  std::optional<int32_t> prompt_tokens;  // told when the server had taken it
  std::vector<TokenArrival> arrivals;
  absl::Status status;  // OK if and only if `usage` came
  std::optional<v1::Usage> usage;
  bool interrupted = false;  // by us, at the user's wish
};

}  // namespace hydrant::server::bench

#endif  // HYDRANT_SERVER_BENCH_REQUEST_RECORD_H_
