#include "server/bench/load_driver.h"

#include <algorithm>
#include <utility>

namespace hydrant::server::bench {

LoadDriver::LoadDriver(Client& client, const RequestSource& source,
                       std::unique_ptr<Arrivals> arrivals, LoadLimits limits, int64_t first_number,
                       int64_t number_step)
    : client_(client),
      source_(source),
      limits_(limits),
      number_step_(number_step),
      number_(first_number),
      arrivals_(std::move(arrivals)) {}

std::vector<RequestRecord> LoadDriver::Run() {
  // Made before it is due: only sending is left then.
  v1::GenerateRequest next = source_.Make(number_);
  std::unique_lock lock(mutex_);
  while (!stopped_ && sent_ < limits_.requests) {
    const std::optional<double> due = arrivals_->Next();
    const double now = clock_.Now();
    if (due.value_or(now) >= limits_.seconds) break;
    if (due && *due <= now) {
      arrivals_->Take();
      ++sent_;
      lock.unlock();
      client_.Start(next, clock_, *due, limits_.timeout,
                    [this](RequestRecord record) { OnEnd(std::move(record)); });
      next = source_.Make(number_ += number_step_);
      lock.lock();
      continue;
    }
    if (!due && sent_ == ended_) break;  // nothing is to come
    const double until = std::min(due.value_or(limits_.seconds), limits_.seconds);
    if (until < std::numeric_limits<double>::infinity()) {
      changed_.wait_until(lock, clock_.At(until));
    } else {
      changed_.wait(lock);
    }
  }
  if (stopped_) client_.InterruptAll();  // what was sent while Stop did so
  changed_.wait(lock, [&] { return sent_ == ended_; });
  return std::move(records_);
}

void LoadDriver::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  client_.InterruptAll();
}

LoadDriver::Progress LoadDriver::progress() const {
  std::lock_guard lock(mutex_);
  return {sent_ - ended_, ended_, not_served_};
}

void LoadDriver::OnEnd(RequestRecord record) {
  const bool served = record.status.ok();
  std::lock_guard lock(mutex_);
  ++ended_;
  if (!served) ++not_served_;
  arrivals_->Ended(record.ended, served);
  records_.push_back(std::move(record));
  changed_.notify_all();  // under the lock: Run may return, and this end, right after it
}

}  // namespace hydrant::server::bench
