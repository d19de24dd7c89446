#include "server/drain.h"

#include <thread>

#include "absl/status/status.h"

namespace hydrant::server {
namespace {

// For ended requests' last messages to reach their clients, and for idle calls of other services.
constexpr std::chrono::seconds kFlushTime(2);
constexpr std::chrono::milliseconds kPoll(10);

}  // namespace

void Drain(GrpcServer& server, engine::Engine& engine, const Metrics& metrics,
           std::chrono::duration<double> timeout) {
  using Clock = std::chrono::steady_clock;
  server.SetServing(false);
  engine.StartDraining();
  const auto drained = [&] { return engine.Drained() && metrics.streams_active() == 0; };
  const auto wait_until = [&](Clock::time_point end) {
    while (!drained() && Clock::now() < end) std::this_thread::sleep_for(kPoll);
  };
  wait_until(Clock::now() + std::chrono::duration_cast<Clock::duration>(timeout));
  if (!drained()) {
    engine.AbortAll(absl::UnavailableError("the server is shutting down"));
    wait_until(Clock::now() + kFlushTime);
  }
  server.Shutdown(std::chrono::system_clock::now() + kFlushTime);
}

}  // namespace hydrant::server
