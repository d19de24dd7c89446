// The parts of the page, from top to bottom, each appended to `out` as HTML; and how numbers are
// written on it.

#ifndef HYDRANT_SERVER_EXPLAIN_PAGE_SECTIONS_H_
#define HYDRANT_SERVER_EXPLAIN_PAGE_SECTIONS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/explain/explanation.h"

namespace hydrant::server {

std::string WithCommas(int64_t count);                           // 1,024
std::string Percent(double share);                               // 87.3 %
std::string_view PolicyName(engine::EvictionPolicyKind policy);  // H2O

// Prompt and answer without its last token, which was never fed back: what the cache has seen.
int32_t FedTokens(const Explanation& explanation);
int32_t Pairs(const Explanation& explanation);  // layers times KV heads

// The first place where the two differ, be it that only one goes on; nullopt: they are the same.
std::optional<size_t> FirstDifference(const std::vector<PageToken>& a,
                                      const std::vector<PageToken>& b);

// Policy, budget, what was evicted and what that saved.
void AppendFacts(const Explanation& explanation, std::string& out);
// Both answers side by side.
void AppendAnswers(const Explanation& explanation, std::string& out);
// Each token shaded by the share of pairs that hold it.
void AppendText(const Explanation& explanation, std::string& out);
// Layers by positions, and each layer's recall beside its row.
void AppendLayers(const Explanation& explanation, std::string& out);

}  // namespace hydrant::server

#endif  // HYDRANT_SERVER_EXPLAIN_PAGE_SECTIONS_H_
