// Ends a stream at a stop token, a stop string or its length, and holds back text that might be the
// beginning of a stop string. Not thread-safe.

#ifndef HYDRANT_ENGINE_STOP_CHECKER_H_
#define HYDRANT_ENGINE_STOP_CHECKER_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/request.h"

namespace hydrant::engine {

struct StopConditions {
  int32_t max_tokens = 1;
  int32_t min_tokens = 0;              // below it neither stop tokens nor stop strings count
  std::vector<int32_t> eos_token_ids;  // empty under ignore_eos
  std::vector<int32_t> stop_token_ids;
  std::vector<std::string> stop;  // none empty
  bool include_stop_str_in_output = false;
};

class StopChecker {
 public:
  explicit StopChecker(StopConditions conditions);

  struct Result {
    std::string text;  // safe to send now
    bool finished = false;
    FinishReason reason = FinishReason::kStop;
    std::variant<std::monostate, std::string, int32_t> matched;
  };

  // Ids that must not be sampled as the next token (eos and stop ids while under min_tokens).
  std::span<const int32_t> banned() const;

  // Whether `token_id` ends the stream by itself; its text is then not shown (it is part of
  // token_ids all the same), unless it is an ordinary stop token under include_stop_str_in_output.
  bool IsStopToken(int32_t token_id) const;

  // One more token was generated and `text` is what the detokenizer gave for it (empty for a stop
  // token). The earliest match in the text wins, of those that start together the first listed.
  // Without inclusion the text ends before the match.
  Result Add(int32_t token_id, std::string text);
  // The stream ends for another reason, or the detokenizer gave its last text: everything held
  // back. May still find a stop string in `text`.
  Result Flush(std::string text);

 private:
  StopConditions conditions_;
  int32_t num_tokens_ = 0;
  std::string held_;
};

}  // namespace hydrant::engine

#endif  // HYDRANT_ENGINE_STOP_CHECKER_H_
