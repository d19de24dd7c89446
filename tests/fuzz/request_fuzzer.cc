// A request from its bytes on the wire to what is applied, against servers of several settings.
// What is accepted keeps what the engine relies on.

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "engine/request_resolver.h"
#include "hydrant/v1/generation.pb.h"
#include "kernels/check.h"
#include "server/proto_conversion.h"

using namespace hydrant;

namespace {

constexpr int32_t kVocabSize = 256;  // a token is a byte

std::vector<int32_t> Prompt(const engine::GenerateRequest& request) {
  if (const auto* ids = std::get_if<std::vector<int32_t>>(&request.input)) return *ids;
  std::string text;
  if (const auto* as_text = std::get_if<std::string>(&request.input)) {
    text = *as_text;
  } else {
    const auto& chat = std::get<engine::chat::Conversation>(request.input);
    for (const auto& message : chat.messages) text += message.role + message.content;
  }
  return {reinterpret_cast<const uint8_t*>(text.data()),
          reinterpret_cast<const uint8_t*>(text.data()) + text.size()};
}

std::vector<engine::ResolverContext> Contexts() {
  engine::ResolverContext plain;
  plain.generation.eos_token_ids = {2};
  plain.vocab_size = kVocabSize;
  plain.max_model_len = 4096;
  plain.kv_slots = 65536;
  plain.audit_bytes = 1 << 20;
  plain.audit_block_bytes = 1 << 10;

  engine::ResolverContext narrow = plain;
  narrow.max_model_len = 64;
  narrow.max_tokens_limit = 8;
  narrow.kv_slots = 32;
  narrow.audit_bytes = 0;
  narrow.eviction = {engine::EvictionPolicyKind::kWindow, std::nullopt, 0.25f, 4, 16};

  engine::ResolverContext full = plain;
  full.eviction.policy = engine::EvictionPolicyKind::kFull;
  return {plain, narrow, full};
}

void CheckResolved(const engine::ResolvedRequest& resolved, int64_t prompt_tokens,
                   const engine::ResolverContext& context) {
  HYDRANT_CHECK(resolved.max_tokens >= 1);
  HYDRANT_CHECK(prompt_tokens + resolved.max_tokens <= context.max_model_len);
  HYDRANT_CHECK(resolved.stopping.min_tokens <= resolved.max_tokens);
  // Also false of what is not a number.
  const engine::AppliedSampling& sampling = resolved.sampling;
  HYDRANT_CHECK(sampling.temperature >= 0 && sampling.temperature <= 100);
  HYDRANT_CHECK(sampling.top_p > 0 && sampling.top_p <= 1);
  HYDRANT_CHECK(sampling.top_k >= 0);
  HYDRANT_CHECK(sampling.repetition_penalty > 0);
  for (const auto& [id, bias] : sampling.logit_bias) {
    HYDRANT_CHECK(id >= 0 && id < kVocabSize && bias >= -100 && bias <= 100);
  }
  for (int32_t id : resolved.stopping.stop_token_ids) HYDRANT_CHECK(id >= 0 && id < kVocabSize);
  if (!resolved.policy) return;
  HYDRANT_CHECK(resolved.policy->sink >= 0 && resolved.policy->heavy >= 0);
  HYDRANT_CHECK(resolved.policy->recent >= 1);
  HYDRANT_CHECK(resolved.policy->budget() == resolved.eviction.budget_tokens);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::vector<engine::ResolverContext> contexts = Contexts();
  v1::GenerateRequest message;
  if (!message.ParseFromArray(data, static_cast<int>(size))) return 0;
  const auto request = server::FromProto(std::move(message));
  if (!request.ok()) return 0;
  const std::vector<int32_t> prompt = Prompt(*request);
  for (const engine::ResolverContext& context : contexts) {
    if (!engine::ValidateParameters(*request, context).ok()) continue;
    const auto resolved = engine::Resolve(*request, prompt, context);
    if (resolved.ok()) {
      CheckResolved(*resolved, static_cast<int64_t>(prompt.size()), context);
    }
  }
  return 0;
}
