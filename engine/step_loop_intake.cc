// StepLoop's side of everybody else's threads: what they ask for is left under the mutex, for the
// engine's thread to take.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/status_details.h"
#include "engine/step_loop.h"

namespace hydrant::engine {

QueueSize StepLoop::Waiting(int32_t joining) const {
  // What has not been scheduled yet waits only if somebody else does or no seat is free.
  const int32_t seats = load_.waiting == 0 ? max_num_seqs_ - load_.running : 0;
  const int32_t others = pending_ - joining;
  QueueSize size{load_.waiting + std::max(0, others - seats), load_.waiting_tokens};
  if (others >= seats) size.tokens += pending_tokens_;
  return size;
}

absl::Status StepLoop::CheckQueueNow() {
  absl::Status status = CheckQueue(limits_, Waiting(0));
  return status.ok() ? status : WithRetryDelay(std::move(status), turns_.Next(Clock::now()));
}

absl::Status StepLoop::CheckRoom() {
  std::lock_guard lock(mutex_);
  if (load_.draining) return absl::UnavailableError("the server is draining");
  return CheckQueueNow();
}

absl::Status StepLoop::Reserve(const std::string& id) {
  std::lock_guard lock(mutex_);
  if (load_.draining) return absl::UnavailableError("the server is draining");
  if (in_flight_.contains(id)) {
    return absl::AlreadyExistsError(absl::StrCat("request_id \"", id, "\" is in flight already"));
  }
  if (absl::Status status = CheckQueueNow(); !status.ok()) return status;
  in_flight_.emplace(id, Phase::kReserved);
  ++pending_;
  return absl::OkStatus();
}

void StepLoop::Unreserve(const std::string& id) {
  std::lock_guard lock(mutex_);
  in_flight_.erase(id);
  --pending_;
}

absl::Status StepLoop::Submit(std::unique_ptr<ActiveRequest> request) {
  {
    std::lock_guard lock(mutex_);
    const int32_t tokens = request->request.prompt_tokens;
    if (absl::Status status = CheckPromptRoom(limits_, Waiting(1), tokens); !status.ok()) {
      in_flight_.erase(request->id);
      --pending_;
      return WithRetryDelay(std::move(status), turns_.Next(Clock::now()));
    }
    pending_tokens_ += tokens;
    Phase& phase = in_flight_.at(request->id);
    if (phase == Phase::kReservedAndCancelled) cancelled_.push_back(request->id);
    phase = Phase::kSubmitted;
    submitted_.push_back(std::move(request));
  }
  wake_.notify_one();
  return absl::OkStatus();
}

bool StepLoop::Cancel(std::string_view id) {
  {
    std::lock_guard lock(mutex_);
    const auto it = in_flight_.find(std::string(id));
    if (it == in_flight_.end()) return false;
    if (it->second != Phase::kSubmitted) {
      it->second = Phase::kReservedAndCancelled;
      return true;
    }
    cancelled_.push_back(it->first);
  }
  wake_.notify_one();
  return true;
}

void StepLoop::AbortAll(absl::Status status) {
  {
    std::lock_guard lock(mutex_);
    abort_all_ = std::move(status);
  }
  wake_.notify_one();
}

void StepLoop::StartDraining() {
  std::lock_guard lock(mutex_);
  load_.draining = true;
}

void StepLoop::GiveUp() {
  std::lock_guard lock(mutex_);
  load_.draining = true;
  load_.healthy = false;
}

bool StepLoop::Drained() const {
  std::lock_guard lock(mutex_);
  return load_.draining && in_flight_.empty();
}

LoadStats StepLoop::load() const {
  std::lock_guard lock(mutex_);
  LoadStats load = load_;
  load.waiting += pending_;
  load.waiting_tokens += pending_tokens_;
  return load;
}

}  // namespace hydrant::engine
