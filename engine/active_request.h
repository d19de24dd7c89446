// One request in flight: the scheduler's Sequence and what the engine needs beside it. Made on the
// submitter's thread; from then on only the engine thread touches it.

#ifndef HYDRANT_ENGINE_ACTIVE_REQUEST_H_
#define HYDRANT_ENGINE_ACTIVE_REQUEST_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/audit.h"
#include "engine/engine.h"
#include "engine/request_resolver.h"
#include "engine/sampler.h"
#include "engine/stop_checker.h"
#include "engine/tokenizer/tokenizer.h"
#include "scheduler/sequence.h"

namespace hydrant::engine {

using Clock = std::chrono::steady_clock;

struct ActiveRequest : scheduler::Sequence {
  ActiveRequest(std::string id, const scheduler::Request& shape, std::vector<int32_t> prompt,
                ResolvedRequest resolved, const Tokenizer& tokenizer, int32_t vocab_size,
                std::unique_ptr<ResponseSink> response_sink)
      : scheduler::Sequence(shape),
        id(std::move(id)),
        tokens(std::move(prompt)),
        applied(std::move(resolved)),
        sampler(applied.sampling, vocab_size, tokens),
        stop(applied.stopping),
        detokenizer(tokenizer, applied.output.skip_special_tokens.value_or(true)),
        sink(std::move(response_sink)) {}

  // Whether slots will ever be given up: a budget that covers the whole length is FULL, bit for
  // bit.
  bool evicts() const { return request.evicts(); }
  bool in_prompt() const { return num_computed_tokens < request.prompt_tokens; }
  int32_t completion_tokens() const { return num_tokens - request.prompt_tokens; }

  const std::string id;
  std::vector<int32_t> tokens;  // prompt, then generated
  const ResolvedRequest applied;
  Sampler sampler;
  StopChecker stop;
  IncrementalDetokenizer detokenizer;
  std::unique_ptr<ResponseSink> sink;
  std::unique_ptr<Audit> audit;  // null: not audited

  // [layers, kv_heads], where the next token goes; empty until the first eviction in decode.
  std::vector<int32_t> holes;
  bool has_hole = false;  // from an eviction in decode to the pass that fills what it left
  // The next pass's newest position after it; what Evict and Compact need.
  int32_t newest_position() const { return num_computed_tokens - 1; }

  // Log-probabilities of the prompt so far, when they were asked for.
  PromptInfo prompt_info;
  bool prompt_info_sent = false;

  int32_t evicted_tokens = 0;
  int32_t peak_slots = 0;
  Clock::time_point submitted;
  std::optional<Clock::time_point> deadline;
  std::optional<Clock::time_point> admitted;  // first admission
  std::optional<Clock::time_point> first_token;
  Clock::time_point last_token;
};

}  // namespace hydrant::engine

#endif  // HYDRANT_ENGINE_ACTIVE_REQUEST_H_
