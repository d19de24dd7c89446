// Runs one prompt twice on an engine, under its policy and with everything kept.

#ifndef HYDRANT_SERVER_EXPLAIN_EXPLAINER_H_
#define HYDRANT_SERVER_EXPLAIN_EXPLAINER_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/engine.h"
#include "server/explain/explanation.h"

namespace hydrant::server {

// Both answers are greedy, whatever `request` says of sampling. Waits for both; errors are the
// engine's.
absl::StatusOr<Explanation> Explain(engine::Engine& engine, engine::GenerateRequest request);

// The tokens of one text with what each adds to it.
std::vector<PageToken> ToPageTokens(const engine::Tokenizer& tokenizer,
                                    const std::vector<int32_t>& ids);

}  // namespace hydrant::server

#endif  // HYDRANT_SERVER_EXPLAIN_EXPLAINER_H_
