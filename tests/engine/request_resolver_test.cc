#include "engine/request_resolver.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

namespace hydrant::engine {
namespace {

ResolverContext Context() {
  ResolverContext context;
  context.generation.eos_token_ids = {2, 7};
  context.vocab_size = 100;
  context.max_model_len = 2048;
  context.kv_slots = 4096;
  return context;
}

std::vector<int32_t> Prompt(int n) { return std::vector<int32_t>(n, 5); }

absl::StatusOr<ResolvedRequest> ResolveAll(const GenerateRequest& request, int prompt_tokens,
                                           const ResolverContext& context = Context()) {
  if (absl::Status status = ValidateParameters(request, context); !status.ok()) return status;
  return Resolve(request, Prompt(prompt_tokens), context);
}

TEST(RequestResolver, FillsInDefaults) {
  const auto resolved = ResolveAll({}, 48);
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  EXPECT_EQ(resolved->max_tokens, 2000);
  EXPECT_EQ(resolved->sampling.temperature, 1.0f);
  EXPECT_EQ(resolved->stopping.eos_token_ids, (std::vector<int32_t>{2, 7}));
  EXPECT_EQ(resolved->eviction.policy, EvictionPolicyKind::kH2O);
  EXPECT_EQ(resolved->eviction.budget_tokens, 1024);
  EXPECT_EQ(resolved->policy->budget(), 1024);
}

TEST(RequestResolver, GenerationConfigComesBeforeTheDefaultAndAfterTheRequest) {
  ResolverContext context = Context();
  context.generation.temperature = 0.6f;
  context.generation.top_k = 20;
  GenerateRequest request;
  request.sampling.top_k = 5;
  auto resolved = ResolveAll(request, 4, context);
  ASSERT_TRUE(resolved.ok());
  EXPECT_EQ(resolved->sampling.temperature, 0.6f);
  EXPECT_EQ(resolved->sampling.top_k, 5);
  context.generation.do_sample = false;
  resolved = ResolveAll(request, 4, context);
  EXPECT_EQ(resolved->sampling.temperature, 0.0f);
  request.sampling.temperature = 0.9f;
  resolved = ResolveAll(request, 4, context);
  EXPECT_EQ(resolved->sampling.temperature, 0.9f);
}

TEST(RequestResolver, TheServersLimitBoundsMaxTokens) {
  ResolverContext context = Context();
  context.max_tokens_limit = 100;
  GenerateRequest request;
  EXPECT_EQ(ResolveAll(request, 48, context)->max_tokens, 100);
  EXPECT_EQ(ResolveAll(request, 2000, context)->max_tokens, 48);  // the context is shorter
  request.stopping.max_tokens = 100;
  EXPECT_EQ(ResolveAll(request, 48, context)->max_tokens, 100);
  request.stopping.max_tokens = 101;
  EXPECT_EQ(ResolveAll(request, 48, context).status().message(),
            "stopping.max_tokens must be at most this server's limit of 100, got 101");
}

TEST(RequestResolver, AFullRequestWithoutMaxTokensIsCutToThePool) {
  ResolverContext context = Context();
  context.kv_slots = 100;
  GenerateRequest request;
  request.eviction.policy = EvictionPolicyKind::kFull;
  const auto resolved = ResolveAll(request, 60, context);
  ASSERT_TRUE(resolved.ok());
  EXPECT_EQ(resolved->max_tokens, 41);  // the last token takes no slot
  EXPECT_FALSE(resolved->policy.has_value());
}

TEST(RequestResolver, ADefaultBudgetLargerThanThePoolIsCutToItToo) {
  ResolverContext context = Context();
  context.kv_slots = 100;
  auto resolved = ResolveAll({}, 60, context);
  ASSERT_TRUE(resolved.ok());
  EXPECT_EQ(resolved->max_tokens, 41);
  EXPECT_EQ(resolved->stopping.max_tokens, 41);
  GenerateRequest bounded;
  bounded.eviction.budget_tokens = 99;  // 100 slots at the most, however long it gets
  resolved = ResolveAll(bounded, 60, context);
  ASSERT_TRUE(resolved.ok());
  EXPECT_EQ(resolved->max_tokens, 2048 - 60);
}

TEST(RequestResolver, BudgetRatioIsOfPromptAndMaxTokens) {
  GenerateRequest request;
  request.stopping.max_tokens = 100;
  request.eviction.policy = EvictionPolicyKind::kStreaming;
  request.eviction.budget_ratio = 0.2f;
  const auto resolved = ResolveAll(request, 100);
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  EXPECT_NEAR(resolved->eviction.budget_tokens, 40, 1);
  EXPECT_EQ(resolved->policy->sink, 4);
  EXPECT_EQ(resolved->policy->heavy, 0);
}

TEST(RequestResolver, PoliciesAddUpToTheBudget) {
  for (const EvictionPolicyKind kind :
       {EvictionPolicyKind::kWindow, EvictionPolicyKind::kStreaming, EvictionPolicyKind::kH2O}) {
    for (int budget = 1; budget < 200; ++budget) {
      GenerateRequest request;
      request.eviction.policy = kind;
      request.eviction.budget_tokens = budget;
      const auto resolved = ResolveAll(request, 10);
      ASSERT_TRUE(resolved.ok()) << budget << resolved.status();
      EXPECT_EQ(resolved->policy->budget(), budget);
      EXPECT_GE(resolved->policy->recent, 1);
      EXPECT_GE(resolved->policy->heavy, 0);
    }
  }
}

struct Refusal {
  const char* name;  // part of the message
  std::function<void(GenerateRequest&)> set;
};

TEST(RequestResolver, RefusesWithFieldAndLimit) {
  const float nan = std::nanf("");
  const std::vector<Refusal> refusals = {
      {"sampling.temperature", [](auto& r) { r.sampling.temperature = -1; }},
      {"sampling.temperature", [=](auto& r) { r.sampling.temperature = nan; }},
      {"sampling.top_p", [](auto& r) { r.sampling.top_p = 0; }},
      {"sampling.top_p", [](auto& r) { r.sampling.top_p = 1.5; }},
      {"sampling.top_k", [](auto& r) { r.sampling.top_k = -1; }},
      {"sampling.min_p", [](auto& r) { r.sampling.min_p = 2; }},
      {"sampling.repetition_penalty", [](auto& r) { r.sampling.repetition_penalty = 0; }},
      {"sampling.presence_penalty", [](auto& r) { r.sampling.presence_penalty = 3; }},
      {"sampling.frequency_penalty", [](auto& r) { r.sampling.frequency_penalty = -3; }},
      {"sampling.logit_bias",
       [](auto& r) {
         r.sampling.logit_bias = {{100, 1.0f}};
       }},
      {"sampling.logit_bias",
       [=](auto& r) {
         r.sampling.logit_bias = {{1, nan}};
       }},
      {"stopping.max_tokens", [](auto& r) { r.stopping.max_tokens = 0; }},
      {"stopping.max_tokens", [](auto& r) { r.stopping.max_tokens = 2040; }},
      {"stopping.min_tokens", [](auto& r) { r.stopping.min_tokens = -1; }},
      {"stopping.min_tokens",
       [](auto& r) {
         r.stopping.max_tokens = 3;
         r.stopping.min_tokens = 4;
       }},
      {"stopping.min_tokens", [](auto& r) { r.stopping.min_tokens = 1 << 30; }},
      {"stopping.stop", [](auto& r) { r.stopping.stop = {""}; }},
      {"stopping.stop_token_ids", [](auto& r) { r.stopping.stop_token_ids = {100}; }},
      {"output.logprobs", [](auto& r) { r.output.logprobs = 101; }},
      {"output.prompt_logprobs", [](auto& r) { r.output.prompt_logprobs = -1; }},
      {"eviction.budget_tokens", [](auto& r) { r.eviction.budget_tokens = 0; }},
      {"eviction.budget_ratio", [](auto& r) { r.eviction.budget_ratio = 0; }},
      {"eviction.budget_ratio", [](auto& r) { r.eviction.budget_ratio = 1.01f; }},
      {"budget_tokens or budget_ratio",
       [](auto& r) {
         r.eviction.budget_ratio = 0.5f;
         r.eviction.budget_tokens = 64;
       }},
      {"sink_tokens + 1",
       [](auto& r) {
         r.eviction.budget_tokens = 8;
         r.eviction.sink_tokens = 8;
       }},
      {"eviction.recent_tokens",
       [](auto& r) {
         r.eviction.budget_tokens = 8;
         r.eviction.recent_tokens = 9;
       }},
      {"eviction.sink_tokens",
       [](auto& r) {
         r.eviction.policy = EvictionPolicyKind::kWindow;
         r.eviction.sink_tokens = 2;
       }},
      {"FULL",
       [](auto& r) {
         r.eviction.policy = EvictionPolicyKind::kFull;
         r.eviction.budget_tokens = 8;
       }},
      {"FULL",
       [](auto& r) {
         r.eviction.policy = EvictionPolicyKind::kFull;
         r.eviction.prefill_eviction = PrefillEviction::kPerChunk;
       }},
      {"eviction.min_budget_tokens",
       [](auto& r) {
         r.eviction.budget_tokens = 8;
         r.eviction.min_budget_tokens = 9;
       }},
  };
  for (const Refusal& refusal : refusals) {
    GenerateRequest request;
    refusal.set(request);
    const auto resolved = ResolveAll(request, 16);
    ASSERT_FALSE(resolved.ok()) << refusal.name;
    EXPECT_TRUE(absl::IsInvalidArgument(resolved.status())) << resolved.status();
    EXPECT_NE(std::string(resolved.status().message()).find(refusal.name), std::string::npos)
        << refusal.name << " is not in: " << resolved.status();
  }
}

TEST(RequestResolver, RefusesPrompts) {
  EXPECT_TRUE(absl::IsInvalidArgument(Resolve({}, {}, Context()).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Resolve({}, {1, 100}, Context()).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Resolve({}, {1, -1}, Context()).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Resolve({}, Prompt(2048), Context()).status()));
  EXPECT_TRUE(Resolve({}, Prompt(2047), Context()).ok());
}

TEST(RequestResolver, ServerLimitsOnBudgets) {
  ResolverContext context = Context();
  context.eviction.min_budget_tokens = 64;
  context.eviction.max_budget_tokens = 512;
  context.eviction.budget_tokens = 256;
  GenerateRequest request;
  EXPECT_TRUE(ResolveAll(request, 16, context).ok());
  request.eviction.budget_tokens = 63;
  EXPECT_FALSE(ResolveAll(request, 16, context).ok());
  request.eviction.budget_tokens = 513;
  EXPECT_FALSE(ResolveAll(request, 16, context).ok());
}

}  // namespace
}  // namespace hydrant::engine
