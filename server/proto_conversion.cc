#include "server/proto_conversion.h"

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace hydrant::server {
namespace {

using engine::EvictionPolicyKind;
using engine::PrefillEviction;

constexpr size_t kMaxRequestIdBytes = 256;

// Message field to std::optional: set only when the field is.
#define HYDRANT_COPY_IF_SET(from, to, field) \
  if ((from).has_##field()) (to).field = (from).field()

absl::Status CheckTokenId(uint32_t id, std::string_view field) {
  if (id <= static_cast<uint32_t>(std::numeric_limits<int32_t>::max())) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(std::string(field), ": ", id,
                                                 " is not a token id; the limit is ",
                                                 std::numeric_limits<int32_t>::max()));
}

template <typename Ids>
absl::StatusOr<std::vector<int32_t>> TokenIds(const Ids& ids, std::string_view field) {
  for (uint32_t id : ids) {
    if (absl::Status status = CheckTokenId(id, field); !status.ok()) return status;
  }
  return std::vector<int32_t>(ids.begin(), ids.end());
}

absl::StatusOr<engine::SamplingParams> FromProto(const v1::SamplingParams& from) {
  engine::SamplingParams to;
  HYDRANT_COPY_IF_SET(from, to, temperature);
  HYDRANT_COPY_IF_SET(from, to, top_p);
  HYDRANT_COPY_IF_SET(from, to, top_k);
  HYDRANT_COPY_IF_SET(from, to, min_p);
  HYDRANT_COPY_IF_SET(from, to, repetition_penalty);
  HYDRANT_COPY_IF_SET(from, to, presence_penalty);
  HYDRANT_COPY_IF_SET(from, to, frequency_penalty);
  HYDRANT_COPY_IF_SET(from, to, seed);
  // A protobuf map has no order of its own.
  const std::map<uint32_t, float> biases(from.logit_bias().begin(), from.logit_bias().end());
  for (const auto& [id, bias] : biases) {
    if (absl::Status status = CheckTokenId(id, "sampling.logit_bias"); !status.ok()) return status;
    to.logit_bias.emplace_back(static_cast<int32_t>(id), bias);
  }
  return to;
}

absl::StatusOr<engine::StoppingParams> FromProto(v1::StoppingParams&& from) {
  engine::StoppingParams to;
  HYDRANT_COPY_IF_SET(from, to, max_tokens);
  HYDRANT_COPY_IF_SET(from, to, min_tokens);
  for (std::string& stop : *from.mutable_stop()) to.stop.push_back(std::move(stop));
  auto ids = TokenIds(from.stop_token_ids(), "stopping.stop_token_ids");
  if (!ids.ok()) return ids.status();
  to.stop_token_ids = *std::move(ids);
  HYDRANT_COPY_IF_SET(from, to, ignore_eos);
  HYDRANT_COPY_IF_SET(from, to, include_stop_str_in_output);
  return to;
}

engine::OutputParams FromProto(const v1::OutputParams& from) {
  engine::OutputParams to;
  HYDRANT_COPY_IF_SET(from, to, logprobs);
  HYDRANT_COPY_IF_SET(from, to, prompt_logprobs);
  HYDRANT_COPY_IF_SET(from, to, echo);
  HYDRANT_COPY_IF_SET(from, to, skip_special_tokens);
  return to;
}

absl::StatusOr<engine::EvictionParams> FromProto(const v1::EvictionParams& from) {
  engine::EvictionParams to;
  switch (from.policy()) {
    case v1::EvictionParams::POLICY_UNSPECIFIED:
      break;
    case v1::EvictionParams::FULL:
      to.policy = EvictionPolicyKind::kFull;
      break;
    case v1::EvictionParams::WINDOW:
      to.policy = EvictionPolicyKind::kWindow;
      break;
    case v1::EvictionParams::STREAMING:
      to.policy = EvictionPolicyKind::kStreaming;
      break;
    case v1::EvictionParams::H2O:
      to.policy = EvictionPolicyKind::kH2O;
      break;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("eviction.policy: ", static_cast<int>(from.policy()),
                       " is none of FULL (1), WINDOW (2), STREAMING (3), H2O (4)"));
  }
  switch (from.prefill_eviction()) {
    case v1::EvictionParams::PREFILL_EVICTION_UNSPECIFIED:
      break;
    case v1::EvictionParams::AFTER_PROMPT:
      to.prefill_eviction = PrefillEviction::kAfterPrompt;
      break;
    case v1::EvictionParams::PER_CHUNK:
      to.prefill_eviction = PrefillEviction::kPerChunk;
      break;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("eviction.prefill_eviction: ", static_cast<int>(from.prefill_eviction()),
                       " is none of AFTER_PROMPT (1), PER_CHUNK (2)"));
  }
  HYDRANT_COPY_IF_SET(from, to, budget_tokens);
  HYDRANT_COPY_IF_SET(from, to, budget_ratio);
  HYDRANT_COPY_IF_SET(from, to, sink_tokens);
  HYDRANT_COPY_IF_SET(from, to, recent_tokens);
  HYDRANT_COPY_IF_SET(from, to, min_budget_tokens);
  HYDRANT_COPY_IF_SET(from, to, audit);
  return to;
}

#undef HYDRANT_COPY_IF_SET

v1::EvictionParams::Policy ToProto(EvictionPolicyKind policy) {
  switch (policy) {
    case EvictionPolicyKind::kFull:
      return v1::EvictionParams::FULL;
    case EvictionPolicyKind::kWindow:
      return v1::EvictionParams::WINDOW;
    case EvictionPolicyKind::kStreaming:
      return v1::EvictionParams::STREAMING;
    case EvictionPolicyKind::kH2O:
      return v1::EvictionParams::H2O;
  }
  return v1::EvictionParams::POLICY_UNSPECIFIED;
}

v1::EvictionParams::PrefillEviction ToProto(PrefillEviction prefill) {
  return prefill == PrefillEviction::kPerChunk ? v1::EvictionParams::PER_CHUNK
                                               : v1::EvictionParams::AFTER_PROMPT;
}

void ToProto(const engine::AppliedSampling& from, v1::SamplingParams& to) {
  to.set_temperature(from.temperature);
  to.set_top_p(from.top_p);
  to.set_top_k(from.top_k);
  to.set_min_p(from.min_p);
  to.set_repetition_penalty(from.repetition_penalty);
  to.set_presence_penalty(from.presence_penalty);
  to.set_frequency_penalty(from.frequency_penalty);
  to.set_seed(from.seed);
  for (const auto& [id, bias] : from.logit_bias) (*to.mutable_logit_bias())[id] = bias;
}

void ToProto(const engine::AppliedEviction& from, v1::EvictionParams& to) {
  to.set_policy(ToProto(from.policy));
  to.set_prefill_eviction(ToProto(from.prefill_eviction));
  to.set_audit(from.audit);
  if (from.policy == EvictionPolicyKind::kFull) return;
  to.set_budget_tokens(from.budget_tokens);
  to.set_sink_tokens(from.sink_tokens);
  to.set_recent_tokens(from.recent_tokens);
}

template <typename Repeated>
void ToProto(const std::vector<engine::TokenLogprobs>& from, Repeated& to) {
  for (const engine::TokenLogprobs& token : from) {
    v1::TokenLogprobs& out = *to.Add();
    out.set_token_id(token.token_id);
    if (token.logprob) out.set_logprob(*token.logprob);
    for (const engine::TopLogprob& top : token.top) {
      v1::TopLogprob& entry = *out.add_top();
      entry.set_token_id(top.token_id);
      entry.set_logprob(top.logprob);
      entry.set_text(top.text);
    }
  }
}

void ToProto(const engine::Usage& from, v1::Usage& to) {
  to.set_prompt_tokens(from.prompt_tokens);
  to.set_completion_tokens(from.completion_tokens);
  to.set_cached_prompt_tokens(from.cached_prompt_tokens);
  to.set_evicted_tokens(from.evicted_tokens);
  to.set_peak_kv_tokens(from.peak_kv_tokens);
  to.set_kv_bytes(from.kv_bytes);
  to.set_preemptions(from.preemptions);
  to.set_queue_seconds(from.queue_seconds);
  to.set_prefill_seconds(from.prefill_seconds);
  to.set_decode_seconds(from.decode_seconds);
  if (!from.recall) return;
  v1::Recall& recall = *to.mutable_recall();
  recall.set_mean(from.recall->mean);
  recall.set_p5(from.recall->p5);
  recall.set_steps(from.recall->steps);
  recall.set_ended_early(!from.recall->complete);
}

}  // namespace

absl::StatusOr<engine::chat::Conversation> FromProto(v1::Chat&& chat) {
  engine::chat::Conversation conversation;
  for (int i = 0; i < chat.messages_size(); ++i) {
    v1::ChatMessage& message = *chat.mutable_messages(i);
    if (!message.has_role()) {
      return absl::InvalidArgumentError(absl::StrCat("chat.messages[", i, "].role: must be set"));
    }
    conversation.messages.push_back(
        {std::move(*message.mutable_role()), std::move(*message.mutable_content())});
  }
  if (chat.has_add_generation_prompt()) {
    conversation.add_generation_prompt = chat.add_generation_prompt();
  }
  return conversation;
}

absl::StatusOr<engine::GenerateRequest> FromProto(v1::GenerateRequest&& request) {
  engine::GenerateRequest out;
  if (request.request_id().size() > kMaxRequestIdBytes) {
    return absl::InvalidArgumentError(absl::StrCat("request_id: ", request.request_id().size(),
                                                   " bytes; the limit is ", kMaxRequestIdBytes));
  }
  out.request_id = std::move(*request.mutable_request_id());
  out.model = std::move(*request.mutable_model());
  out.priority = request.priority();
  switch (request.input_case()) {
    case v1::GenerateRequest::kText:
      out.input = std::move(*request.mutable_text());
      break;
    case v1::GenerateRequest::kTokenIds: {
      auto ids = TokenIds(request.token_ids().ids(), "token_ids");
      if (!ids.ok()) return ids.status();
      out.input = *std::move(ids);
      break;
    }
    case v1::GenerateRequest::kChat: {
      auto conversation = FromProto(std::move(*request.mutable_chat()));
      if (!conversation.ok()) return conversation.status();
      out.input = *std::move(conversation);
      break;
    }
    case v1::GenerateRequest::INPUT_NOT_SET:
      return absl::InvalidArgumentError("input: one of text, token_ids and chat must be set");
  }
  auto sampling = FromProto(request.sampling());
  if (!sampling.ok()) return sampling.status();
  out.sampling = *std::move(sampling);
  auto stopping = FromProto(std::move(*request.mutable_stopping()));
  if (!stopping.ok()) return stopping.status();
  out.stopping = *std::move(stopping);
  out.output = FromProto(request.output());
  auto eviction = FromProto(request.eviction());
  if (!eviction.ok()) return eviction.status();
  out.eviction = *eviction;
  return out;
}

void ToProto(const engine::PromptInfo& info, v1::PromptInfo& out) {
  out.set_request_id(info.request_id);
  out.set_model(info.model);
  out.set_prompt_tokens(info.prompt_tokens);
  out.set_max_tokens(info.max_tokens);
  ToProto(info.sampling, *out.mutable_sampling());
  ToProto(info.eviction, *out.mutable_eviction());
  ToProto(info.prompt_logprobs, *out.mutable_prompt_logprobs());
}

void ToProto(const engine::Delta& delta, v1::Delta& out) {
  out.set_text(delta.text);
  out.mutable_token_ids()->Add(delta.token_ids.begin(), delta.token_ids.end());
  ToProto(delta.logprobs, *out.mutable_logprobs());
}

void ToProto(const engine::Finished& finished, v1::Finished& out) {
  out.set_reason(finished.reason == engine::FinishReason::kStop ? v1::Finished::STOP
                                                                : v1::Finished::LENGTH);
  if (const auto* stop = std::get_if<std::string>(&finished.matched)) out.set_stop(*stop);
  if (const auto* id = std::get_if<int32_t>(&finished.matched)) out.set_stop_token_id(*id);
  ToProto(finished.usage, *out.mutable_usage());
}

void ToProto(const engine::ModelInfo& info, v1::GetModelInfoResponse& out) {
  out.set_name(info.name);
  out.set_architecture(info.architecture);
  out.set_parameters(info.parameters);
  out.set_vocab_size(info.vocab_size);
  out.set_max_model_len(info.max_model_len);
  out.set_num_layers(info.num_layers);
  out.set_num_heads(info.num_heads);
  out.set_num_kv_heads(info.num_kv_heads);
  out.set_head_dim(info.head_dim);
  out.set_hidden_size(info.hidden_size);
  out.set_backend(info.backend);
  out.set_weight_dtype(info.weight_dtype);
  out.set_kv_cache_dtype(info.kv_dtype);
  out.set_weight_bytes(info.weight_bytes);
  out.set_kv_bytes_per_token(info.kv_bytes_per_token);
  out.set_kv_cache_bytes(info.kv_cache_bytes);
  out.set_kv_blocks(info.kv_blocks);
  out.set_block_slots(info.block_slots);
  out.set_has_chat_template(info.has_chat_template);
  out.mutable_eos_token_ids()->Add(info.eos_token_ids.begin(), info.eos_token_ids.end());
  v1::EvictionParams& eviction = *out.mutable_default_eviction();
  eviction.set_policy(ToProto(info.eviction.policy));
  if (info.eviction.policy != EvictionPolicyKind::kFull) {
    if (info.eviction.budget_tokens) eviction.set_budget_tokens(*info.eviction.budget_tokens);
    if (info.eviction.budget_ratio) eviction.set_budget_ratio(*info.eviction.budget_ratio);
  }
  out.set_min_budget_tokens(info.eviction.min_budget_tokens);
  out.set_max_budget_tokens(info.eviction.max_budget_tokens);
}

void ToProto(const engine::LoadStats& load, v1::GetLoadResponse& out) {
  out.set_running(load.running);
  out.set_waiting(load.waiting);
  out.set_kv_blocks_total(load.kv_blocks_total);
  out.set_kv_blocks_free(load.kv_blocks_free);
  out.set_last_step_unix_ms(load.last_step_unix_ms);
  out.set_draining(load.draining);
  out.set_healthy(load.healthy);
  out.set_waiting_tokens(load.waiting_tokens);
}

}  // namespace hydrant::server
