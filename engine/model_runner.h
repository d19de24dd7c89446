// Turns what the scheduler chose into one batch, runs the model over it, and applies eviction to
// what the pass left behind. Knows tokens, slots, holes and draws; not streams.

#ifndef HYDRANT_ENGINE_MODEL_RUNNER_H_
#define HYDRANT_ENGINE_MODEL_RUNNER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "engine/active_request.h"
#include "engine/models/model.h"
#include "kernels/backend.h"
#include "scheduler/scheduler.h"

namespace hydrant::engine {

class ModelRunner {
 public:
  // All outlive the runner. `max_rows`: of one pass.
  ModelRunner(Model& model, kernels::Backend& backend, kernels::KvStore& kv, int32_t max_rows,
              int32_t max_sequences);

  // What a pass says of the token after the one at `position`.
  class Prediction {
   public:
    ActiveRequest& request;
    const int32_t position;
    // What the request's sampler drew, where it was to draw: for the newest token, unless tokens
    // are forced. -1 where no logit is above -inf.
    const std::optional<int32_t> token;

    // The model's own, [vocab_size]; until the next call, of any prediction. On a device this takes
    // a copy of its own.
    std::span<const float> ReadLogits() const {
      return {backend_.HostRows(logits_), static_cast<size_t>(logits_.cols)};
    }

   private:
    friend class ModelRunner;
    Prediction(ActiveRequest& r, int32_t p, std::optional<int32_t> t, kernels::Backend& backend,
               kernels::Matrix logits)
        : request(r), position(p), token(t), backend_(backend), logits_(logits) {}
    kernels::Backend& backend_;
    const kernels::Matrix logits_;
  };
  using OnPrediction = std::function<void(const Prediction& prediction)>;

  // One pass; audits learn what it measured. Logits are computed for the row that samples, and for
  // prompt rows where log-probabilities of the prompt are wanted; nowhere else.
  void Run(const scheduler::SchedulerOutput& output);
  // Draws tokens, and hands the pass's predictions out, in the order of the batch.
  void ForEachPrediction(const OnPrediction& on_prediction);

  // After Scheduler::Commit: compacts sequences whose prompt is done (or whose chunk is, under
  // per-chunk prefill) and that hold more than their budget, evicts one slot of each decoding
  // sequence that holds one more than its budget, and tells the scheduler. Audits are handed what
  // goes. `on_eviction` is called for each sequence that lost tokens, with their number and the
  // blocks that came free.
  using OnEviction =
      std::function<void(ActiveRequest& request, int32_t tokens, int32_t blocks_freed)>;
  void Evict(const scheduler::SchedulerOutput& output, scheduler::Scheduler& scheduler,
             const OnEviction& on_eviction);

  // Which tokens a sequence holds now; between passes. Reads every slot of every layer and head.
  HeldTokens Held(const ActiveRequest& request) const;

 private:
  struct LogitRow {
    ActiveRequest* request;
    int32_t position;
    bool draws;
  };

  void AddSequence(ActiveRequest& request, const scheduler::ScheduledSequence& scheduled);

  Model& model_;
  kernels::Backend& backend_;
  kernels::KvStore& kv_;
  // Reused from pass to pass.
  kernels::Batch batch_;
  std::vector<LogitRow> logit_rows_;
  std::vector<kernels::TokenDraw> draws_;
  std::vector<int32_t> tokens_;  // what they drew
  std::vector<kernels::EvictionItem> evict_, compact_;
  std::vector<ActiveRequest*> evicting_, compacting_;
};

}  // namespace hydrant::engine

#endif  // HYDRANT_ENGINE_MODEL_RUNNER_H_
