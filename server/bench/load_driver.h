// Sends requests when they are due and collects what became of them.

#ifndef HYDRANT_SERVER_BENCH_LOAD_DRIVER_H_
#define HYDRANT_SERVER_BENCH_LOAD_DRIVER_H_

#include <condition_variable>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "server/bench/arrivals.h"
#include "server/bench/client.h"
#include "server/bench/request_record.h"
#include "server/bench/request_source.h"

namespace hydrant::server::bench {

struct LoadLimits {
  int64_t requests = std::numeric_limits<int64_t>::max();
  double seconds = std::numeric_limits<double>::infinity();  // no request that is due later
  std::optional<double> timeout = std::nullopt;              // of each request, in seconds
};

class LoadDriver {
 public:
  // The clock starts here. Requests are first_number, first_number + step, … of `source`, which
  // outlives this, as `client` does.
  LoadDriver(Client& client, const RequestSource& source, std::unique_ptr<Arrivals> arrivals,
             LoadLimits limits, int64_t first_number = 0, int64_t number_step = 1);

  // Returns when every request that was sent has ended. Once.
  std::vector<RequestRecord> Run();
  // Sends nothing more and interrupts what is open. From any thread.
  void Stop();

  const Clock& clock() const { return clock_; }

  struct Progress {
    int64_t open = 0, ended = 0, not_served = 0;
  };
  Progress progress() const;  // from any thread

 private:
  void OnEnd(RequestRecord record);

  Client& client_;
  const RequestSource& source_;
  const LoadLimits limits_;
  const int64_t number_step_;
  int64_t number_;
  const Clock clock_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::unique_ptr<Arrivals> arrivals_;
  std::vector<RequestRecord> records_;
  int64_t sent_ = 0, ended_ = 0;
  int64_t not_served_ = 0;
  bool stopped_ = false;
};

}  // namespace hydrant::server::bench

#endif  // HYDRANT_SERVER_BENCH_LOAD_DRIVER_H_
