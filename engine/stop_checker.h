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
  std::vector<std::string> stop;  // none empty; one that is not whole characters never matches
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

  // Whether `token_id`, as the next token, ends the stream by itself.
  bool IsStopToken(int32_t token_id) const;
  // Whether its text is then not shown (it is part of token_ids all the same): so for all but an
  // ordinary stop token under include_stop_str_in_output.
  bool HidesText(int32_t token_id) const;

  // One more token was generated and `text` is what the detokenizer gave for it (empty when
  // hidden): whole UTF-8 characters. The stream ends with the first token that completes a stop
  // string; of several in the text the earliest wins, of those that start together the first
  // listed. Without inclusion the text ends before the match. When it finishes otherwise (a stop
  // token, the length), Flush gives what is still held back.
  Result Add(int32_t token_id, std::string text);
  // The stream ends for another reason, or the detokenizer gave its last text: everything held
  // back. May still find a stop string in `text`.
  Result Flush(std::string text);

 private:
  // One stop string and how much of it the text so far ends with (Knuth, Morris and Pratt).
  struct Pattern {
    std::string text;
    std::vector<int32_t> border;  // [length + 1]: longest proper prefix that ends each prefix
    int32_t matched = 0;
  };

  // Appends to held_, then gives what can no longer be part of a stop string, or the match.
  Result Advance(std::string_view text);

  StopConditions conditions_;
  std::vector<int32_t> stop_ids_;  // eos and stop tokens
  std::vector<Pattern> patterns_;  // in the order listed
  int32_t num_tokens_ = 0;
  std::string held_;  // the longest end of the text that begins a stop string
};

}  // namespace hydrant::engine

#endif  // HYDRANT_ENGINE_STOP_CHECKER_H_
