#include "engine/request_resolver.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/batch.h"

namespace hydrant::engine {
namespace {

constexpr int32_t kMaxPriority = 100;
constexpr int32_t kMaxLogprobs = 100;
constexpr size_t kMaxStopStrings = 64;
constexpr size_t kMaxStopBytes = 4096;
constexpr size_t kMaxLogitBias = 1024;
constexpr size_t kMaxStopIds = 1024;
// StreamingLLM's attention sinks: a handful of first tokens keeps the output from collapsing.
constexpr int32_t kDefaultSink = 4;

template <typename T>
absl::Status Refuse(std::string_view field, T value, std::string_view limit) {
  return absl::InvalidArgumentError(
      absl::StrCat(absl::string_view(field.data(), field.size()), " must be ",
                   absl::string_view(limit.data(), limit.size()), ", got ", value));
}

// Refuses a set value for which `allowed` is false; NaN is never allowed.
template <typename T, typename Predicate>
absl::Status Check(std::string_view field, const std::optional<T>& value, std::string_view limit,
                   Predicate allowed) {
  if (!value || allowed(*value)) return absl::OkStatus();
  return Refuse(field, *value, limit);
}

absl::Status CheckTokenId(std::string_view field, int64_t id, int32_t vocab_size) {
  if (id >= 0 && id < vocab_size) return absl::OkStatus();
  return Refuse(field, id, absl::StrCat("a token id below the vocabulary's ", vocab_size));
}

absl::Status ValidateSampling(const SamplingParams& s, int32_t vocab_size) {
  const auto within = [](float low, float high) {
    return [low, high](float v) { return v >= low && v <= high; };
  };
  for (const absl::Status& status : {
           Check("sampling.temperature", s.temperature, "from 0 to 100", within(0, 100)),
           Check("sampling.top_p", s.top_p, "above 0 and at most 1",
                 [](float v) { return v > 0 && v <= 1; }),
           Check("sampling.top_k", s.top_k, "0 (off) or more", [](int32_t v) { return v >= 0; }),
           Check("sampling.min_p", s.min_p, "from 0 to 1", within(0, 1)),
           Check("sampling.repetition_penalty", s.repetition_penalty, "above 0 and at most 100",
                 [](float v) { return v > 0 && v <= 100; }),
           Check("sampling.presence_penalty", s.presence_penalty, "from -2 to 2", within(-2, 2)),
           Check("sampling.frequency_penalty", s.frequency_penalty, "from -2 to 2", within(-2, 2)),
       }) {
    if (!status.ok()) return status;
  }
  if (s.logit_bias.size() > kMaxLogitBias) {
    return Refuse("the number of sampling.logit_bias entries", s.logit_bias.size(),
                  absl::StrCat("at most ", kMaxLogitBias));
  }
  for (const auto& [id, bias] : s.logit_bias) {
    if (absl::Status status = CheckTokenId("sampling.logit_bias key", id, vocab_size);
        !status.ok()) {
      return status;
    }
    if (!within(-100, 100)(bias))
      return Refuse("sampling.logit_bias value", bias, "from -100 to 100");
  }
  return absl::OkStatus();
}

absl::Status ValidateStopping(const StoppingParams& s, const ResolverContext& context) {
  for (const absl::Status& status : {
           Check("stopping.max_tokens", s.max_tokens, "at least 1",
                 [](int32_t v) { return v >= 1; }),
           Check("stopping.min_tokens", s.min_tokens, "at least 0",
                 [](int32_t v) { return v >= 0; }),
       }) {
    if (!status.ok()) return status;
  }
  if (context.max_tokens_limit > 0 && s.max_tokens > context.max_tokens_limit) {
    return Refuse("stopping.max_tokens", *s.max_tokens,
                  absl::StrCat("at most this server's limit of ", context.max_tokens_limit));
  }
  if (s.max_tokens && s.min_tokens && *s.min_tokens > *s.max_tokens) {
    return Refuse("stopping.min_tokens", *s.min_tokens,
                  absl::StrCat("at most stopping.max_tokens, ", *s.max_tokens));
  }
  if (s.stop.size() > kMaxStopStrings) {
    return Refuse("the number of stopping.stop strings", s.stop.size(),
                  absl::StrCat("at most ", kMaxStopStrings));
  }
  for (const std::string& stop : s.stop) {
    if (stop.empty() || stop.size() > kMaxStopBytes) {
      return Refuse("the length of a stopping.stop string", stop.size(),
                    absl::StrCat("from 1 to ", kMaxStopBytes, " bytes"));
    }
  }
  if (s.stop_token_ids.size() > kMaxStopIds) {
    return Refuse("the number of stopping.stop_token_ids", s.stop_token_ids.size(),
                  absl::StrCat("at most ", kMaxStopIds));
  }
  for (int32_t id : s.stop_token_ids) {
    if (absl::Status status = CheckTokenId("stopping.stop_token_ids", id, context.vocab_size);
        !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

absl::Status ValidateEviction(const EvictionParams& e, const ResolverContext& context) {
  if (e.audit.value_or(false) && context.audit_bytes == 0) {
    return absl::InvalidArgumentError(
        "eviction.audit: this server has no memory for audits, its audit_bytes is 0");
  }
  const EvictionPolicyKind policy = e.policy.value_or(context.eviction.policy);
  if (policy == EvictionPolicyKind::kFull &&
      (e.budget_tokens || e.budget_ratio || e.sink_tokens || e.recent_tokens ||
       e.min_budget_tokens || e.prefill_eviction == PrefillEviction::kPerChunk)) {
    return absl::InvalidArgumentError(
        "eviction: FULL keeps every token; budget_tokens, budget_ratio, min_budget_tokens, "
        "sink_tokens, recent_tokens and prefill_eviction PER_CHUNK must be unset");
  }
  if (e.budget_tokens && e.budget_ratio) {
    return absl::InvalidArgumentError("eviction: set budget_tokens or budget_ratio, not both");
  }
  for (const absl::Status& status : {
           Check("eviction.budget_tokens", e.budget_tokens, "at least 1",
                 [](int32_t v) { return v >= 1; }),
           Check("eviction.budget_ratio", e.budget_ratio, "above 0 and at most 1",
                 [](float v) { return v > 0 && v <= 1; }),
           Check("eviction.sink_tokens", e.sink_tokens, "at least 0",
                 [](int32_t v) { return v >= 0; }),
           Check("eviction.recent_tokens", e.recent_tokens, "at least 1",
                 [](int32_t v) { return v >= 1; }),
           Check("eviction.min_budget_tokens", e.min_budget_tokens, "at least 1",
                 [](int32_t v) { return v >= 1; }),
       }) {
    if (!status.ok()) return status;
  }
  if (policy == EvictionPolicyKind::kWindow && e.sink_tokens.value_or(0) > 0) {
    return Refuse("eviction.sink_tokens", *e.sink_tokens, "0 for WINDOW (STREAMING keeps sinks)");
  }
  return absl::OkStatus();
}

// How many tokens an evicting request may keep.
absl::StatusOr<int32_t> ResolveBudget(const EvictionParams& e, EvictionPolicyKind policy,
                                      int64_t total_tokens, const EvictionDefaults& defaults) {
  int64_t budget = 0;
  const auto of_ratio = [&](float ratio) {
    return std::max<int64_t>(1, std::llround(std::ceil(double{ratio} * total_tokens)));
  };
  if (e.budget_tokens) {
    budget = *e.budget_tokens;
  } else if (e.budget_ratio) {
    budget = of_ratio(*e.budget_ratio);
  } else if (e.recent_tokens && policy != EvictionPolicyKind::kH2O) {
    budget = int64_t{*e.recent_tokens} + e.sink_tokens.value_or(0);
  } else if (defaults.budget_ratio) {
    budget = of_ratio(*defaults.budget_ratio);
  } else {
    budget = defaults.budget_tokens.value_or(1024);
  }
  if (defaults.min_budget_tokens > 0 && budget < defaults.min_budget_tokens) {
    return Refuse("eviction budget", budget,
                  absl::StrCat("at least this server's ", defaults.min_budget_tokens, " tokens"));
  }
  if (defaults.max_budget_tokens > 0 && budget > defaults.max_budget_tokens) {
    return Refuse("eviction budget", budget,
                  absl::StrCat("at most this server's ", defaults.max_budget_tokens, " tokens"));
  }
  return static_cast<int32_t>(std::min<int64_t>(budget, INT32_MAX));
}

absl::StatusOr<kernels::EvictionPolicy> ResolvePolicy(const EvictionParams& e,
                                                      EvictionPolicyKind kind, int32_t budget) {
  const int32_t sink = e.sink_tokens.value_or(
      kind == EvictionPolicyKind::kWindow ? 0 : std::min(kDefaultSink, budget / 4));
  if (budget < int64_t{sink} + 1) {
    return Refuse("eviction budget", budget,
                  absl::StrCat("at least sink_tokens + 1 = ", int64_t{sink} + 1));
  }
  kernels::EvictionPolicy policy;
  policy.sink = sink;
  if (kind == EvictionPolicyKind::kH2O) {
    // Half recent, half heavy hitters, as the H2O paper's default.
    policy.recent = e.recent_tokens.value_or(std::clamp(budget / 2, 1, budget - sink));
  } else {
    policy.recent = e.recent_tokens.value_or(budget - sink);
  }
  const int64_t heavy = int64_t{budget} - sink - policy.recent;
  if (heavy < 0) {
    return Refuse("eviction.recent_tokens", policy.recent,
                  absl::StrCat("at most the budget less the sink, ", budget - sink));
  }
  if (kind != EvictionPolicyKind::kH2O && heavy != 0) {
    return Refuse("eviction.recent_tokens", policy.recent,
                  absl::StrCat("the budget less the sink, ", budget - sink,
                               ", for a policy without heavy hitters"));
  }
  policy.heavy = static_cast<int32_t>(heavy);
  return policy;
}

absl::Status ResolveEviction(const GenerateRequest& request, int64_t prompt_tokens,
                             const ResolverContext& context, ResolvedRequest* resolved) {
  const EvictionParams& e = request.eviction;
  AppliedEviction& applied = resolved->eviction;
  applied.policy = e.policy.value_or(context.eviction.policy);
  applied.prefill_eviction = e.prefill_eviction.value_or(PrefillEviction::kAfterPrompt);
  applied.audit = e.audit.value_or(false);
  if (applied.policy == EvictionPolicyKind::kFull) return absl::OkStatus();

  const auto budget =
      ResolveBudget(e, applied.policy, prompt_tokens + resolved->max_tokens, context.eviction);
  if (!budget.ok()) return budget.status();
  const auto policy = ResolvePolicy(e, applied.policy, *budget);
  if (!policy.ok()) return policy.status();
  if (e.min_budget_tokens && *e.min_budget_tokens > *budget) {
    return Refuse("eviction.min_budget_tokens", *e.min_budget_tokens,
                  absl::StrCat("at most the budget, ", *budget));
  }
  applied.budget_tokens = *budget;
  applied.sink_tokens = policy->sink;
  applied.heavy_tokens = policy->heavy;
  applied.recent_tokens = policy->recent;
  resolved->policy = *policy;
  return absl::OkStatus();
}

// An audit that is sure to end before it measures anything is refused.
absl::Status CheckAuditFits(const ResolvedRequest& resolved, int64_t prompt_tokens,
                            const ResolverContext& context) {
  // The last token generated is never attended to.
  const int64_t length = prompt_tokens + resolved.max_tokens - 1;
  const int64_t budget = resolved.policy ? resolved.policy->budget() : length;
  if (!resolved.eviction.audit || budget >= length) return absl::OkStatus();
  const int64_t evicted = std::max<int64_t>(1, prompt_tokens - budget);
  const int64_t bytes =
      (evicted + kernels::kBlockSlots - 1) / kernels::kBlockSlots * context.audit_block_bytes;
  if (bytes <= context.audit_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("eviction.audit: the keys of the first ", evicted, " tokens evicted take ",
                   bytes, " bytes; this server's audit_bytes is ", context.audit_bytes));
}

AppliedSampling ResolveSampling(const SamplingParams& s, const weights::GenerationConfig& config) {
  const bool greedy = config.do_sample.has_value() && !*config.do_sample;
  AppliedSampling applied;
  applied.temperature = s.temperature.value_or(greedy ? 0.0f : config.temperature.value_or(1.0f));
  applied.top_p = s.top_p.value_or(config.top_p.value_or(1.0f));
  applied.top_k = s.top_k.value_or(config.top_k.value_or(0));
  applied.min_p = s.min_p.value_or(config.min_p.value_or(0.0f));
  applied.repetition_penalty =
      s.repetition_penalty.value_or(config.repetition_penalty.value_or(1.0f));
  applied.presence_penalty = s.presence_penalty.value_or(0.0f);
  applied.frequency_penalty = s.frequency_penalty.value_or(0.0f);
  applied.logit_bias = s.logit_bias;
  applied.seed = s.seed ? *s.seed : [] {
    std::random_device device;
    return uint64_t{device()} << 32 | device();
  }();
  return applied;
}

absl::Status ValidateForced(const GenerateRequest& request, int32_t vocab_size) {
  for (int32_t id : request.forced_tokens) {
    if (absl::Status status = CheckTokenId("forced_tokens", id, vocab_size); !status.ok()) {
      return status;
    }
  }
  if (!request.forced_tokens.empty() && request.stopping.max_tokens) {
    return Refuse("stopping.max_tokens", *request.stopping.max_tokens,
                  "unset beside forced_tokens, whose number it is");
  }
  return absl::OkStatus();
}

// When the answer ends, and at what length.
absl::Status ResolveStopping(const GenerateRequest& request, const ResolverContext& context,
                             ResolvedRequest* resolved) {
  StopConditions& stopping = resolved->stopping;
  stopping.max_tokens = resolved->max_tokens;
  if (!request.forced_tokens.empty()) return absl::OkStatus();
  stopping.min_tokens = request.stopping.min_tokens.value_or(0);
  if (stopping.min_tokens > resolved->max_tokens) {
    return Refuse("stopping.min_tokens", stopping.min_tokens,
                  absl::StrCat("at most the max_tokens that apply, ", resolved->max_tokens));
  }
  if (!request.stopping.ignore_eos.value_or(false)) {
    stopping.eos_token_ids = context.generation.eos_token_ids;
  }
  stopping.stop_token_ids = request.stopping.stop_token_ids;
  stopping.stop = request.stopping.stop;
  stopping.include_stop_str_in_output = request.stopping.include_stop_str_in_output.value_or(false);
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateParameters(const GenerateRequest& request, const ResolverContext& context) {
  for (const absl::Status& status : {
           ValidateSampling(request.sampling, context.vocab_size),
           ValidateStopping(request.stopping, context),
           ValidateEviction(request.eviction, context),
           ValidateForced(request, context.vocab_size),
       }) {
    if (!status.ok()) return status;
  }
  if (request.priority < -kMaxPriority || request.priority > kMaxPriority) {
    return Refuse("priority", request.priority,
                  absl::StrCat("from ", -kMaxPriority, " to ", kMaxPriority));
  }
  const auto logprobs = [](int32_t v) { return v >= 0 && v <= kMaxLogprobs; };
  const std::string limit = absl::StrCat("from 0 to ", kMaxLogprobs);
  absl::Status status = Check("output.logprobs", request.output.logprobs, limit, logprobs);
  if (!status.ok()) return status;
  return Check("output.prompt_logprobs", request.output.prompt_logprobs, limit, logprobs);
}

absl::StatusOr<ResolvedRequest> Resolve(const GenerateRequest& request,
                                        const std::vector<int32_t>& prompt,
                                        const ResolverContext& context) {
  const int64_t n = static_cast<int64_t>(prompt.size());
  if (n == 0)
    return absl::InvalidArgumentError("input: the prompt has no tokens; at least 1 is needed");
  for (int32_t id : prompt) {
    if (absl::Status status = CheckTokenId("input.token_ids", id, context.vocab_size);
        !status.ok()) {
      return status;
    }
  }
  if (n >= context.max_model_len) {
    return Refuse("the prompt's length in tokens", n,
                  absl::StrCat("below the model's context of ", context.max_model_len));
  }

  ResolvedRequest resolved;
  const int64_t room = context.max_model_len - n;
  std::optional<int64_t> max_tokens = request.stopping.max_tokens;
  const bool forced = !request.forced_tokens.empty();
  if (forced) max_tokens = static_cast<int64_t>(request.forced_tokens.size());
  if (max_tokens > room) {
    return Refuse(forced ? "the number of forced_tokens" : "stopping.max_tokens", *max_tokens,
                  absl::StrCat("at most ", room, " for a prompt of ", n,
                               " tokens and a context of ", context.max_model_len));
  }
  const int64_t unasked =
      context.max_tokens_limit > 0 ? std::min<int64_t>(room, context.max_tokens_limit) : room;
  resolved.max_tokens = static_cast<int32_t>(max_tokens.value_or(unasked));
  resolved.forced_tokens = request.forced_tokens;
  resolved.report_held = request.report_held;
  resolved.sampling = ResolveSampling(request.sampling, context.generation);
  resolved.output = request.output;

  if (absl::Status status = ResolveEviction(request, n, context, &resolved); !status.ok()) {
    return status;
  }
  // Unset: what is left of the context, and of the pool where no budget keeps below it (the last
  // token takes no slot).
  const int64_t fits = std::max<int64_t>(1, context.kv_slots - n + 1);
  const bool outgrows = !resolved.policy || resolved.policy->budget() >= context.kv_slots;
  if (!max_tokens && outgrows && resolved.max_tokens > fits) {
    resolved.max_tokens = static_cast<int32_t>(fits);
    // A ratio is of the shorter length now.
    if (absl::Status status = ResolveEviction(request, n, context, &resolved); !status.ok()) {
      return status;
    }
  }

  if (absl::Status status = CheckAuditFits(resolved, n, context); !status.ok()) return status;
  if (absl::Status status = ResolveStopping(request, context, &resolved); !status.ok()) {
    return status;
  }
  return resolved;
}

}  // namespace hydrant::engine
