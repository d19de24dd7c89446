// The engine thread's side of the engine: requests in flight and what one step does to them.
// Reads aloud as: take what came, schedule, run, sample, evict, publish.

#ifndef HYDRANT_ENGINE_STEP_LOOP_H_
#define HYDRANT_ENGINE_STEP_LOOP_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "engine/active_request.h"
#include "engine/engine.h"
#include "engine/kv_cache.h"
#include "engine/model_runner.h"
#include "engine/queue_limits.h"
#include "engine/queue_turns.h"
#include "engine/step_cost.h"
#include "scheduler/scheduler.h"

namespace hydrant::engine {

class StepLoop {
 public:
  // All outlive the loop. Starts the thread.
  StepLoop(const scheduler::SchedulerOptions& options, const QueueLimits& limits,
           std::string model_name, ModelRunner& runner, KvCache& kv_cache,
           const AuditMemory& audit_memory, const Tokenizer& tokenizer, EngineObserver& observer);
  // Every open request ends with UNAVAILABLE.
  ~StepLoop();

  // ---- from any thread ----

  // Takes a place in the queue and the id, before anything costly is done for the request.
  // ALREADY_EXISTS, or what CheckRoom says.
  absl::Status Reserve(const std::string& id);
  // UNAVAILABLE (draining), RESOURCE_EXHAUSTED with the delay after which there may be room.
  absl::Status CheckRoom();
  // Gives the place and the id back: the request was refused after all.
  void Unreserve(const std::string& id);
  // Hands over a request whose id was reserved. RESOURCE_EXHAUSTED when its prompt is more than the
  // queue still takes: then id and place are given back.
  absl::Status Submit(std::unique_ptr<ActiveRequest> request);
  bool Cancel(std::string_view id);
  void AbortAll(absl::Status status);
  void StartDraining();
  void GiveUp();
  bool Drained() const;
  LoadStats load() const;
  absl::Status CheckFits(const scheduler::Request& request) const {
    return scheduler_.CheckFits(request);
  }

 private:
  // A request that ended in this step; its sink hears of it once the gauges are published.
  struct Ended {
    std::unique_ptr<ActiveRequest> request;
    std::variant<Finished, absl::Status> result;
    RequestOutcome outcome;
  };

  void Run();
  // Waits for something to do; false when the loop is to end.
  bool TakeInbox();
  // Ends what is past its deadline, or waited too long.
  void Expire();
  // Who waits, without `joining` of those that hold a place already. With mutex_ held.
  QueueSize Waiting(int32_t joining) const;
  // CheckQueue, and when to come back. With mutex_ held.
  absl::Status CheckQueueNow();
  void Step();
  void Admit(const scheduler::SchedulerOutput& output);
  void OnPrediction(const ModelRunner::Prediction& prediction);
  void AppendToken(ActiveRequest& request, int32_t token, std::optional<TokenLogprobs> logprobs);
  void SendPromptInfo(ActiveRequest& request);
  TokenLogprobs Logprobs(std::span<const float> logits, int32_t token, int32_t top) const;
  void Finish(ActiveRequest& request, FinishReason reason,
              std::variant<std::monostate, std::string, int32_t> matched);
  void Fail(ActiveRequest& request, absl::Status status, RequestOutcome outcome);
  // Takes the request from the scheduler and from requests_ into ended_.
  void End(ActiveRequest& request, std::variant<Finished, absl::Status> result,
           RequestOutcome outcome);
  // The gauges as they are now; done before anybody is told what they tell of.
  void PublishLoad();
  void TellEnded();
  Usage MakeUsage(const ActiveRequest& request, Clock::time_point now) const;

  const int32_t max_num_seqs_;
  const QueueLimits limits_;
  const std::string model_name_;
  ModelRunner& runner_;
  KvCache& kv_cache_;
  const AuditMemory& audit_memory_;
  const Tokenizer& tokenizer_;
  EngineObserver& observer_;

  // Engine thread's.
  scheduler::Scheduler scheduler_;
  std::unordered_map<std::string, std::unique_ptr<ActiveRequest>> requests_;
  std::vector<Ended> ended_;
  StepStats step_;
  StepCost cost_;
  // From the inbox since the gauges were published.
  int32_t taken_ = 0;
  int64_t taken_tokens_ = 0;
  int32_t started_ = 0;  // since then, too

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  // Guarded by mutex_.
  std::vector<std::unique_ptr<ActiveRequest>> submitted_;
  std::vector<std::string> cancelled_;
  std::optional<absl::Status> abort_all_;
  // A cancel may come while the submitter still prepares the request.
  enum class Phase { kReserved, kReservedAndCancelled, kSubmitted };
  std::unordered_map<std::string, Phase> in_flight_;
  int32_t pending_ = 0;         // ids that have not been through the scheduler yet
  int64_t pending_tokens_ = 0;  // of their prompts, where they are known
  LoadStats load_;
  QueueTurns turns_;
  bool stop_ = false;

  std::thread thread_;
};

}  // namespace hydrant::engine

#endif  // HYDRANT_ENGINE_STEP_LOOP_H_
