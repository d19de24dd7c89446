// What a client may ask of the engine, as plain values: unset optionals mean the checkpoint's
// generation_config.json, then the server's default, then the value in the comment.
// The proto hydrant.v1 mirrors these one to one; nothing here knows of it.

#ifndef HYDRANT_ENGINE_REQUEST_H_
#define HYDRANT_ENGINE_REQUEST_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "engine/chat/chat.h"

namespace hydrant::engine {

struct SamplingParams {
  std::optional<float> temperature;                   // 1; 0 is greedy
  std::optional<float> top_p;                         // 1 = off; (0, 1]
  std::optional<int32_t> top_k;                       // 0 = off
  std::optional<float> min_p;                         // 0 = off; [0, 1]
  std::optional<float> repetition_penalty;            // 1 = off; > 0, over prompt and output (CTRL)
  std::optional<float> presence_penalty;              // 0 = off; [-2, 2], over the output
  std::optional<float> frequency_penalty;             // 0 = off; [-2, 2], over the output
  std::optional<uint64_t> seed;                       // unset: drawn, and echoed in PromptInfo
  std::vector<std::pair<int32_t, float>> logit_bias;  // token id -> added; [-100, 100]
};

struct StoppingParams {
  std::optional<int32_t> max_tokens;  // what is left of the context
  std::optional<int32_t> min_tokens;  // 0
  std::vector<std::string> stop;
  std::vector<int32_t> stop_token_ids;
  std::optional<bool> ignore_eos;                  // false
  std::optional<bool> include_stop_str_in_output;  // false
};

struct OutputParams {
  std::optional<int32_t> logprobs;          // unset: none; n: the token's own and the n best
  std::optional<int32_t> prompt_logprobs;   // likewise for the prompt
  std::optional<bool> echo;                 // false; the prompt's text and ids come first
  std::optional<bool> skip_special_tokens;  // true
};

enum class EvictionPolicyKind { kFull, kWindow, kStreaming, kH2O };
enum class PrefillEviction { kAfterPrompt, kPerChunk };

struct EvictionParams {
  std::optional<EvictionPolicyKind> policy;
  std::optional<int32_t> budget_tokens;  // this or budget_ratio
  std::optional<float> budget_ratio;     // of prompt + max_tokens; (0, 1]
  std::optional<int32_t> sink_tokens;
  std::optional<int32_t> recent_tokens;
  std::optional<int32_t> min_budget_tokens;
  std::optional<PrefillEviction> prefill_eviction;
  std::optional<bool> audit;  // unset: by the server's audit_rate
};

struct GenerateRequest {
  std::string request_id;  // empty: the engine makes one
  std::string model;       // empty: the one that is loaded
  int32_t priority = 0;    // [-100, 100]; higher goes first
  // Text is tokenised with special tokens added; token ids are taken as they are.
  std::variant<std::string, std::vector<int32_t>, chat::Conversation> input;
  SamplingParams sampling;
  StoppingParams stopping;
  OutputParams output;
  EvictionParams eviction;

  // What only this API offers, for tools that measure or show a model; the proto has neither.
  //
  // Tokens that the answer is made of, whatever the model would have said (teacher forcing). It
  // ends with the last of them and with nothing else: max_tokens is unset, and stop tokens and stop
  // strings do not count. Log-probabilities are the model's, of these tokens.
  std::vector<int32_t> forced_tokens;
  // Finished tells which tokens were held at the end.
  bool report_held = false;
};

// ---- what comes back ----

struct TopLogprob {
  int32_t token_id = 0;
  float logprob = 0;
  std::string text;
};
struct TokenLogprobs {
  int32_t token_id = 0;
  std::optional<float> logprob;  // unset for the first prompt token
  std::vector<TopLogprob> top;   // best first
};

// Sampling and eviction as they were applied, every default filled in.
struct AppliedSampling {
  float temperature = 1, top_p = 1, min_p = 0;
  int32_t top_k = 0;
  float repetition_penalty = 1, presence_penalty = 0, frequency_penalty = 0;
  uint64_t seed = 0;
  std::vector<std::pair<int32_t, float>> logit_bias;
};
struct AppliedEviction {
  EvictionPolicyKind policy = EvictionPolicyKind::kFull;
  int32_t budget_tokens = 0;  // 0 for FULL
  int32_t sink_tokens = 0;
  int32_t heavy_tokens = 0;
  int32_t recent_tokens = 0;
  PrefillEviction prefill_eviction = PrefillEviction::kAfterPrompt;
  bool audit = false;
};

struct PromptInfo {
  std::string request_id;
  std::string model;
  int32_t prompt_tokens = 0;
  int32_t max_tokens = 0;
  AppliedSampling sampling;
  AppliedEviction eviction;
  std::vector<TokenLogprobs> prompt_logprobs;
};

struct Delta {
  std::string text;  // whole UTF-8 characters; may be empty while text is held back
  std::vector<int32_t> token_ids;
  std::vector<TokenLogprobs> logprobs;
};

enum class FinishReason { kStop, kLength };

// How much of the attention of the same history's full cache fell on tokens that were still held,
// over the audited decode steps (see audit.h): for each layer and query head, the sum of exp(q.k)
// over held keys as a share of the sum over held and evicted ones. Without an audited step it is 1,
// as no attention missed a token; or 0 and incomplete, as it is not known.
struct Recall {
  double mean = 1;                  // over steps, layers and query heads
  double p5 = 1;                    // 5th percentile of the same, rounded down to a thousandth
  int32_t steps = 0;                // audited
  bool complete = true;             // false: the memory for evicted keys ran out before the end
  std::vector<double> layer_means;  // [layers]
};

struct Usage {
  int32_t prompt_tokens = 0;
  int32_t completion_tokens = 0;
  int32_t cached_prompt_tokens = 0;
  int32_t evicted_tokens = 0;  // for each layer and KV head
  int32_t peak_kv_tokens = 0;
  int64_t kv_bytes = 0;  // of peak_kv_tokens' blocks
  int32_t preemptions = 0;
  double queue_seconds = 0;
  double prefill_seconds = 0;
  double decode_seconds = 0;
  std::optional<Recall> recall;  // of an audited request
};

// The positions that each layer and KV head holds.
struct HeldTokens {
  int32_t layers = 0;
  int32_t kv_heads = 0;
  int32_t count = 0;               // the same in all
  std::vector<int32_t> positions;  // [layers, kv_heads, count], ascending
};

struct Finished {
  FinishReason reason = FinishReason::kStop;
  // What ended it: a stop string, a stop token, or nothing (length).
  std::variant<std::monostate, std::string, int32_t> matched;
  Usage usage;
  // What the last token of the answer was drawn from, itself excepted: nothing is evicted after
  // that. Of a request that asked for it.
  std::optional<HeldTokens> held;
};

}  // namespace hydrant::engine

#endif  // HYDRANT_ENGINE_REQUEST_H_
