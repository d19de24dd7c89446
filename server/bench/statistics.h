// From records to figures. No gRPC, no clock.

#ifndef HYDRANT_SERVER_BENCH_STATISTICS_H_
#define HYDRANT_SERVER_BENCH_STATISTICS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "server/bench/request_record.h"
#include "server/bench/slo.h"

namespace hydrant::server::bench {

// All samples of a quantity, so percentiles are exact.
class Samples {
 public:
  Samples() = default;
  explicit Samples(std::vector<double> values);  // in any order

  bool empty() const { return sorted_.empty(); }
  const std::vector<double>& sorted() const { return sorted_; }
  // The least value that at least `percent` (0 < percent <= 100) percent of the values do not
  // exceed (nearest rank): one that was measured. Not of empty samples.
  double Percentile(double percent) const;
  double Mean() const;
  double Max() const { return sorted_.back(); }

 private:
  std::vector<double> sorted_;
};

enum class Outcome {
  kCompleted,    // the whole answer came
  kRefused,      // the server took the call and said no before it began
  kCancelled,    // by somebody at the server
  kInterrupted,  // by the user of this command
  kFailed,       // anything else: connection, deadline, fault
};
Outcome OutcomeOf(const RequestRecord& record);

struct Counts {
  int64_t sent = 0;
  int64_t completed = 0, refused = 0, cancelled = 0, interrupted = 0, failed = 0;  // add up to sent
  std::map<std::string, int64_t> by_status;        // "OK", "RESOURCE_EXHAUSTED"
  std::map<std::string, std::string> first_error;  // its message, for each status but OK
};

// Sums over the usage that the server told of completed requests.
struct UsageSums {
  int64_t prompt_tokens = 0, completion_tokens = 0, cached_prompt_tokens = 0, evicted_tokens = 0;
  int64_t preemptions = 0;
  double queue_seconds = 0;
  // Of audited requests: the mean of their means, the least of their 5th percentiles.
  int64_t recall_requests = 0;
  double recall_mean = 0, recall_p5_min = 0;
};

// Requests that were due in [begin, end), and tokens that arrived in it.
struct Summary {
  double begin = 0, end = 0;  // seconds
  Counts counts;
  // Seconds; of completed requests.
  Samples ttft;  // from when the request was due to the first token
  Samples itl;   // every gap between two messages of one answer
  Samples tpot;  // a request's mean time a token after the first
  Samples e2e;
  int64_t output_tokens = 0;  // also of requests that did not complete
  int64_t prompt_tokens = 0;  // of requests that the server began to answer
  int64_t within_slo = 0;     // requests; 0 without an SLO
  double max_send_delay = 0;  // how late a request left, at most: this side was busy
  UsageSums usage;

  double seconds() const { return end - begin; }
  double PerSecond(double count) const { return seconds() > 0 ? count / seconds() : 0; }
  // Of all requests but interrupted ones, the share within the SLO; nullopt when there is none.
  std::optional<double> SloShare() const;
};

Summary Summarize(const std::vector<RequestRecord>& records, const std::optional<Slo>& slo,
                  double begin, double end);

}  // namespace hydrant::server::bench

#endif  // HYDRANT_SERVER_BENCH_STATISTICS_H_
