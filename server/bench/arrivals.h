// When requests are due. Pure logic: times are seconds since the measurement began, and the clock
// is the caller's. Not thread-safe.

#ifndef HYDRANT_SERVER_BENCH_ARRIVALS_H_
#define HYDRANT_SERVER_BENCH_ARRIVALS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace hydrant::server::bench {

// A part of a load: `level` requests at once, or a second, from `begin` to the next step.
struct LoadStep {
  double begin = 0;
  double level = 0;
};

// `count` steps of the same length over `seconds`; levels go evenly from `from` to `to`, both
// included. One step has the level `from`.
std::vector<LoadStep> MakeSteps(double from, double to, int count, double seconds);

// The step that `seconds` lies in.
size_t StepAt(const std::vector<LoadStep>& steps, double seconds);

class Arrivals {
 public:
  virtual ~Arrivals() = default;
  // When the next request is due; nullopt when none is before another one has ended, or ever.
  virtual std::optional<double> Next() const = 0;
  // The request of Next() is being sent.
  virtual void Take() = 0;
  // One has ended; `served` unless it was refused or failed.
  virtual void Ended(double seconds, bool served) {}
};

// Closed loop: `level` (rounded) at once, each followed by the next. One that follows a request
// that was not served comes kRetryDelay later, so that a server that refuses is not stormed. Levels
// only rise or only fall.
std::unique_ptr<Arrivals> ClosedArrivals(std::vector<LoadStep> steps);
inline constexpr double kRetryDelay = 0.1;

// Open loop: a Poisson process of `level` (above 0) requests a second, whatever becomes of them.
// The times are a function of steps and seed alone.
std::unique_ptr<Arrivals> PoissonArrivals(std::vector<LoadStep> steps, uint64_t seed);

// Open loop: at these times, in order.
std::unique_ptr<Arrivals> GivenArrivals(std::vector<double> seconds);

}  // namespace hydrant::server::bench

#endif  // HYDRANT_SERVER_BENCH_ARRIVALS_H_
