#include "server/bench/arrivals.h"

#include <cmath>
#include <functional>
#include <queue>
#include <utility>

#include "server/bench/random.h"

namespace hydrant::server::bench {
namespace {

class Closed final : public Arrivals {
 public:
  explicit Closed(std::vector<LoadStep> steps) : steps_(std::move(steps)) {
    for (const LoadStep& step : steps_) {
      for (; slots_ < Level(step); ++slots_) due_.push(step.begin);
    }
  }

  std::optional<double> Next() const override {
    return due_.empty() ? std::nullopt : std::optional(due_.top());
  }
  void Take() override { due_.pop(); }
  void Ended(double seconds, bool served) override {
    const double due = served ? seconds : seconds + kRetryDelay;
    const bool falling = Level(steps_.back()) < Level(steps_.front());
    if (falling && slots_ > Level(steps_[StepAt(steps_, due)])) {
      --slots_;
    } else {
      due_.push(due);
    }
  }

 private:
  static int64_t Level(const LoadStep& step) { return std::llround(step.level); }

  const std::vector<LoadStep> steps_;
  // One entry a request that may be sent, the earliest on top; what is open has none.
  std::priority_queue<double, std::vector<double>, std::greater<>> due_;
  int64_t slots_ = 0;  // of a rising load: those still to come, too
};

class Poisson final : public Arrivals {
 public:
  Poisson(std::vector<LoadStep> steps, uint64_t seed) : steps_(std::move(steps)), random_(seed, 0) {
    Take();
  }

  std::optional<double> Next() const override { return next_; }
  void Take() override {
    // The gap is exponential in the rate's integral; walk the steps until that is used up.
    double left = -std::log(random_.Unit());
    for (size_t i = StepAt(steps_, next_);; ++i) {
      const double end = next_ + left / steps_[i].level;
      if (i + 1 == steps_.size() || end < steps_[i + 1].begin) {
        next_ = end;
        return;
      }
      left -= (steps_[i + 1].begin - next_) * steps_[i].level;
      next_ = steps_[i + 1].begin;
    }
  }

 private:
  const std::vector<LoadStep> steps_;
  Random random_;
  double next_ = 0;
};

class Given final : public Arrivals {
 public:
  explicit Given(std::vector<double> seconds) : seconds_(std::move(seconds)) {}

  std::optional<double> Next() const override {
    return next_ < seconds_.size() ? std::optional(seconds_[next_]) : std::nullopt;
  }
  void Take() override { ++next_; }

 private:
  const std::vector<double> seconds_;
  size_t next_ = 0;
};

}  // namespace

std::vector<LoadStep> MakeSteps(double from, double to, int count, double seconds) {
  std::vector<LoadStep> steps(count);
  for (int i = 0; i < count; ++i) {
    steps[i].begin = seconds * i / count;
    steps[i].level = count == 1 ? from : from + (to - from) * i / (count - 1);
  }
  return steps;
}

size_t StepAt(const std::vector<LoadStep>& steps, double seconds) {
  size_t i = 0;
  while (i + 1 < steps.size() && steps[i + 1].begin <= seconds) ++i;
  return i;
}

std::unique_ptr<Arrivals> ClosedArrivals(std::vector<LoadStep> steps) {
  return std::make_unique<Closed>(std::move(steps));
}

std::unique_ptr<Arrivals> PoissonArrivals(std::vector<LoadStep> steps, uint64_t seed) {
  return std::make_unique<Poisson>(std::move(steps), seed);
}

std::unique_ptr<Arrivals> GivenArrivals(std::vector<double> seconds) {
  return std::make_unique<Given>(std::move(seconds));
}

}  // namespace hydrant::server::bench
