// What a step costs, learned from the steps themselves, so that the scheduler can keep the pace of
// those who decode while a prompt is read (Scheduler::Schedule's decode_worth).
//
// The model: a step with both takes as long as one of decodes alone, and token_seconds more for each
// prompt token. Both follow what is measured by exponential smoothing. What a prompt token costs in a
// step of its own says little (large chunks are cheaper); it is the first guess.

#ifndef HYDRANT_ENGINE_STEP_COST_H_
#define HYDRANT_ENGINE_STEP_COST_H_

#include <cstdint>

namespace hydrant::engine {

class StepCost {
 public:
  // A step of `decodes` sequences' next tokens and `prompt_tokens` took `seconds`. At least one of
  // the two is above 0.
  void Observe(int32_t decodes, int32_t prompt_tokens, double seconds);

  // How many prompt tokens take as long as a step of decodes alone, >= 1; a guess until steps of
  // both kinds have been seen.
  int32_t DecodeWorth() const;

 private:
  double decode_seconds_ = 0;  // of a step without a prompt; 0: not known
  double token_seconds_ = 0;   // beside decodes; 0: not known
  double alone_seconds_ = 0;   // of a prompt token in a step without decodes; 0: not known
};

}  // namespace hydrant::engine

#endif  // HYDRANT_ENGINE_STEP_COST_H_
