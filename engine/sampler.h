// What the next token of a request is to be drawn by, and what is told of the logits it was drawn
// from. The choice itself is Backend::Sample's. All of it follows from the request alone, so a
// seeded request's tokens do not depend on batch, chunking, preemption or threads.

#ifndef HYDRANT_ENGINE_SAMPLER_H_
#define HYDRANT_ENGINE_SAMPLER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "engine/request.h"
#include "kernels/sampling.h"

namespace hydrant::engine {

// One request's sampler. Holds the counts that penalties need; not thread-safe.
class Sampler {
 public:
  // `prompt` seeds the repetition penalty; ids outside [0, vocab_size) are ignored.
  Sampler(AppliedSampling params, int32_t vocab_size, std::span<const int32_t> prompt);

  // How the next token is drawn from its row of logits (row 0: the caller's to set): in this order
  // logit bias and penalties (repetition, presence, frequency), then temperature, then top-k, top-p
  // and min-p, then one draw. `banned`: ids that cannot be chosen (eos while min_tokens is not
  // reached). The draw for output token i uses a counter-based generator keyed by (seed, i). What
  // it points to stays until the next call of either.
  kernels::TokenDraw Next(std::span<const int32_t> banned);
  // `token` is the one that was drawn.
  void Record(int32_t token);

 private:
  bool has_penalties() const;
  // Where `id` stands in changes_, which it is put into if it is not.
  size_t PlaceOf(int32_t id);

  AppliedSampling params_;
  int32_t vocab_size_;
  uint64_t num_sampled_ = 0;
  // By id: tokens with a bias and, where there are penalties, those seen; and beside them how often
  // each was generated.
  std::vector<kernels::LogitChange> changes_;
  std::vector<int32_t> counts_;
  std::vector<kernels::LogitChange> with_bans_;
};

// log softmax of `logits` at `token_id`, and of the `top` best, best first (ties: lowest id).
// `text` of the entries is left empty. From the model's own logits, before any parameter. A NaN
// counts as -inf; an entry of `top` is always above -inf. `token_id` must be in the vocabulary.
TokenLogprobs ComputeLogprobs(std::span<const float> logits, int32_t token_id, int32_t top);

}  // namespace hydrant::engine

#endif  // HYDRANT_ENGINE_SAMPLER_H_
