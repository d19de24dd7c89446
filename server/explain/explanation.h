// What a page about one answer is made of: one prompt under one policy, and the full cache's answer
// beside it. Plain values: how they were come by is explainer.h's business, how they look page.h's.

#ifndef HYDRANT_SERVER_EXPLAIN_EXPLANATION_H_
#define HYDRANT_SERVER_EXPLAIN_EXPLANATION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "engine/request.h"

namespace hydrant::server {

struct PageToken {
  int32_t id = 0;
  // Whole characters, valid UTF-8. A character of several tokens is the last one's; the others'
  // text is empty.
  std::string text;
  bool special = false;  // a control token of the tokenizer
};

struct Explanation {
  std::string model;
  std::string weight_dtype;
  std::string kv_dtype;
  int64_t kv_bytes_per_token = 0;
  engine::AppliedEviction eviction;
  std::vector<PageToken> prompt;
  std::vector<PageToken> answer;       // under the policy
  std::vector<PageToken> full_answer;  // with everything kept
  engine::HeldTokens held;             // at the end of `answer`
  engine::Usage usage;                 // of `answer`
};

}  // namespace hydrant::server

#endif  // HYDRANT_SERVER_EXPLAIN_EXPLANATION_H_
