// A workload as a file: one JSON object a line (empty lines are skipped), each a request:
//
//   {"arrival": 0.35, "prompt_tokens": 900, "max_tokens": 120, "prefix_id": "agent-7",
//    "prefix_tokens": 512, "eviction": {"policy": "h2o", "budget_tokens": 256}}
//
//   prompt_tokens  so many random tokens, or
//   text           this text, or
//   token_ids      these tokens: one of the three must be there
//   max_tokens     tokens to generate; default: the flag's
//   arrival        seconds since the beginning at which it is due, in any order
//   prefix_id      string or integer: the first prefix_tokens of prompt_tokens are those of every
//   prefix_tokens  other request with this id. Both or none, with prompt_tokens only
//   eviction       settings that go before the flags': policy, budget_tokens or budget_ratio,
//                  sink_tokens, recent_tokens, min_budget_tokens, prefill_eviction ("after_prompt",
//                  "per_chunk"), audit
//
// Any other key is an error.

#ifndef HYDRANT_SERVER_BENCH_TRACE_H_
#define HYDRANT_SERVER_BENCH_TRACE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "hydrant/v1/generation.pb.h"

namespace hydrant::server::bench {

inline constexpr int32_t kMaxPromptTokens = 1'000'000;  // fits in a request's 16 MiB
inline constexpr int32_t kMaxOutputTokens = 1'000'000;

struct RandomTokens {
  int32_t count = 0;
  std::string prefix_id;
  int32_t prefix_count = 0;  // 0: no prefix
};

struct TraceRequest {
  int line = 0;  // of the file, from 1
  std::variant<RandomTokens, std::string, std::vector<int32_t>> prompt;
  std::optional<int32_t> max_tokens;
  std::optional<double> arrival;
  v1::EvictionParams eviction;
};

// Of `text`, with at least one request. Errors name `where` (the file) and the line.
absl::StatusOr<std::vector<TraceRequest>> ParseTrace(const std::string& where,
                                                     std::string_view text);

}  // namespace hydrant::server::bench

#endif  // HYDRANT_SERVER_BENCH_TRACE_H_
