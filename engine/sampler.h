// Logits to one token. Pure: output is a function of the arguments alone, so a seeded request's
// tokens do not depend on batch, chunking, preemption or threads.

#ifndef HYDRANT_ENGINE_SAMPLER_H_
#define HYDRANT_ENGINE_SAMPLER_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/candidates.h"
#include "engine/request.h"

namespace hydrant::engine {

// One request's sampler. Holds the counts that penalties need; not thread-safe.
class Sampler {
 public:
  // `prompt` seeds the repetition penalty; ids outside [0, vocab_size) are ignored.
  Sampler(AppliedSampling params, int32_t vocab_size, std::span<const int32_t> prompt);

  // Picks the next token from f32 logits [vocab_size], which it may overwrite. `banned`: ids that
  // cannot be chosen (eos while min_tokens is not reached). In the order of the field: logit bias
  // and penalties (repetition, presence, frequency), then temperature, then top-k, top-p and min-p,
  // then one draw. temperature 0 is argmax, ties to the lowest id. The draw for output token i uses
  // a counter-based generator keyed by (seed, i). No sort of the whole vocabulary, no allocation
  // after the first call. A logit that is NaN never wins; nullopt when none is above -inf.
  std::optional<int32_t> Sample(std::span<float> logits, std::span<const int32_t> banned);
  // Whether Sample would change the logits' order: if not, argmax of them is the answer.
  bool is_plain_greedy() const;

 private:
  struct SeenToken {
    int32_t id;
    int32_t count;  // in the output; 0: only in the prompt
  };

  bool has_penalties() const;
  void Record(int32_t token);

  AppliedSampling params_;
  int32_t vocab_size_;
  uint64_t num_sampled_ = 0;
  std::vector<SeenToken> seen_;  // by id; kept only when there are penalties
  Candidates candidates_;
};

// log softmax of `logits` at `token_id`, and of the `top` best, best first (ties: lowest id).
// `text` of the entries is left empty. From the model's own logits, before any parameter. A NaN
// counts as -inf; an entry of `top` is always above -inf. `token_id` must be in the vocabulary.
TokenLogprobs ComputeLogprobs(std::span<const float> logits, int32_t token_id, int32_t top);

}  // namespace hydrant::engine

#endif  // HYDRANT_ENGINE_SAMPLER_H_
