// From what a client asked to what is applied: validates every parameter, fills in the checkpoint's
// and the server's defaults, and turns eviction parameters into a policy.

#ifndef HYDRANT_ENGINE_REQUEST_RESOLVER_H_
#define HYDRANT_ENGINE_REQUEST_RESOLVER_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/engine.h"
#include "engine/request.h"
#include "engine/stop_checker.h"
#include "engine/weights/checkpoint.h"
#include "kernels/eviction_policy.h"

namespace hydrant::engine {

// What does not change from request to request.
struct ResolverContext {
  weights::GenerationConfig generation;  // with every id that ends a stream in eos_token_ids
  EvictionDefaults eviction;
  int32_t vocab_size = 0;
  int32_t max_model_len = 0;
  int32_t max_tokens_limit = 0;  // 0: none
  int64_t kv_slots = 0;          // the pool
  int64_t audit_bytes = 0;       // for all audits
  int64_t audit_block_bytes = 0;
};

struct ResolvedRequest {
  int32_t max_tokens = 1;
  AppliedSampling sampling;
  StopConditions stopping;
  OutputParams output;
  AppliedEviction eviction;
  std::vector<int32_t> forced_tokens;
  bool report_held = false;
  // nullopt: FULL.
  std::optional<kernels::EvictionPolicy> policy;
};

// Checks what does not need the prompt, so that a bad request is refused before it is tokenised.
// INVALID_ARGUMENT names the field as the proto does ("sampling.top_p"), its value and the limit.
absl::Status ValidateParameters(const GenerateRequest& request, const ResolverContext& context);

// `request` has passed ValidateParameters. Checks the prompt and what depends on its length, and
// fills in everything.
absl::StatusOr<ResolvedRequest> Resolve(const GenerateRequest& request,
                                        const std::vector<int32_t>& prompt,
                                        const ResolverContext& context);

}  // namespace hydrant::engine

#endif  // HYDRANT_ENGINE_REQUEST_RESOLVER_H_
