#include "server/proto_conversion.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace hydrant::server {
namespace {

v1::GenerateRequest Text() {
  v1::GenerateRequest request;
  request.set_text("x");
  return request;
}

TEST(ProtoConversionTest, WhatIsUnsetStaysUnset) {
  const auto request = FromProto(Text());
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(std::get<std::string>(request->input), "x");
  EXPECT_FALSE(request->sampling.temperature || request->sampling.top_p ||
               request->sampling.top_k || request->sampling.min_p || request->sampling.seed ||
               request->sampling.repetition_penalty || request->sampling.presence_penalty ||
               request->sampling.frequency_penalty);
  EXPECT_FALSE(request->stopping.max_tokens || request->stopping.min_tokens ||
               request->stopping.ignore_eos || request->stopping.include_stop_str_in_output);
  EXPECT_FALSE(request->output.logprobs || request->output.prompt_logprobs ||
               request->output.echo || request->output.skip_special_tokens);
  EXPECT_FALSE(request->eviction.policy || request->eviction.budget_tokens ||
               request->eviction.budget_ratio || request->eviction.sink_tokens ||
               request->eviction.recent_tokens || request->eviction.min_budget_tokens ||
               request->eviction.prefill_eviction || request->eviction.audit);
}

TEST(ProtoConversionTest, ZeroIsNotUnset) {
  v1::GenerateRequest message = Text();
  message.mutable_sampling()->set_temperature(0);
  message.mutable_sampling()->set_seed(0);
  message.mutable_output()->set_logprobs(0);
  message.mutable_output()->set_skip_special_tokens(false);
  message.mutable_eviction()->set_budget_tokens(0);
  const auto request = FromProto(std::move(message));
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->sampling.temperature, 0.f);
  EXPECT_EQ(request->sampling.seed, 0u);
  EXPECT_EQ(request->output.logprobs, 0);
  EXPECT_EQ(request->output.skip_special_tokens, false);
  EXPECT_EQ(request->eviction.budget_tokens, 0);
}

TEST(ProtoConversionTest, EveryFieldArrives) {
  v1::GenerateRequest message;
  message.set_request_id("id");
  message.set_model("m");
  message.set_priority(-3);
  for (uint32_t id : {5u, 6u}) message.mutable_token_ids()->add_ids(id);
  auto& sampling = *message.mutable_sampling();
  sampling.set_top_p(0.5f);
  sampling.set_top_k(4);
  sampling.set_min_p(0.1f);
  sampling.set_repetition_penalty(1.1f);
  sampling.set_presence_penalty(0.2f);
  sampling.set_frequency_penalty(0.3f);
  (*sampling.mutable_logit_bias())[9] = -1;
  (*sampling.mutable_logit_bias())[7] = 2;
  auto& stopping = *message.mutable_stopping();
  stopping.set_max_tokens(11);
  stopping.set_min_tokens(2);
  stopping.add_stop("end");
  stopping.add_stop_token_ids(13);
  stopping.set_ignore_eos(true);
  stopping.set_include_stop_str_in_output(true);
  message.mutable_output()->set_prompt_logprobs(3);
  message.mutable_output()->set_echo(true);
  auto& eviction = *message.mutable_eviction();
  eviction.set_policy(v1::EvictionParams::STREAMING);
  eviction.set_budget_ratio(0.5f);
  eviction.set_sink_tokens(1);
  eviction.set_recent_tokens(2);
  eviction.set_min_budget_tokens(3);
  eviction.set_prefill_eviction(v1::EvictionParams::PER_CHUNK);
  eviction.set_audit(true);
  const auto request = FromProto(std::move(message));
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->request_id, "id");
  EXPECT_EQ(request->model, "m");
  EXPECT_EQ(request->priority, -3);
  EXPECT_EQ(std::get<std::vector<int32_t>>(request->input), (std::vector<int32_t>{5, 6}));
  EXPECT_EQ(request->sampling.top_p, 0.5f);
  EXPECT_EQ(request->sampling.top_k, 4);
  EXPECT_EQ(request->sampling.min_p, 0.1f);
  EXPECT_EQ(request->sampling.repetition_penalty, 1.1f);
  EXPECT_EQ(request->sampling.presence_penalty, 0.2f);
  EXPECT_EQ(request->sampling.frequency_penalty, 0.3f);
  EXPECT_EQ(request->sampling.logit_bias,
            (std::vector<std::pair<int32_t, float>>{{7, 2.f}, {9, -1.f}}));
  EXPECT_EQ(request->stopping.max_tokens, 11);
  EXPECT_EQ(request->stopping.min_tokens, 2);
  EXPECT_EQ(request->stopping.stop, std::vector<std::string>{"end"});
  EXPECT_EQ(request->stopping.stop_token_ids, std::vector<int32_t>{13});
  EXPECT_EQ(request->stopping.ignore_eos, true);
  EXPECT_EQ(request->stopping.include_stop_str_in_output, true);
  EXPECT_EQ(request->output.prompt_logprobs, 3);
  EXPECT_EQ(request->output.echo, true);
  EXPECT_EQ(request->eviction.policy, engine::EvictionPolicyKind::kStreaming);
  EXPECT_EQ(request->eviction.budget_ratio, 0.5f);
  EXPECT_EQ(request->eviction.sink_tokens, 1);
  EXPECT_EQ(request->eviction.recent_tokens, 2);
  EXPECT_EQ(request->eviction.min_budget_tokens, 3);
  EXPECT_EQ(request->eviction.prefill_eviction, engine::PrefillEviction::kPerChunk);
  EXPECT_EQ(request->eviction.audit, true);
}

TEST(ProtoConversionTest, ChatArrives) {
  v1::GenerateRequest message;
  auto& chat = *message.mutable_chat();
  chat.add_messages()->set_role("system");
  chat.mutable_messages(0)->set_content("be brief");
  chat.set_add_generation_prompt(false);
  const auto request = FromProto(std::move(message));
  ASSERT_TRUE(request.ok());
  const auto& conversation = std::get<engine::chat::Conversation>(request->input);
  ASSERT_EQ(conversation.messages.size(), 1u);
  EXPECT_EQ(conversation.messages[0].role, "system");
  EXPECT_EQ(conversation.messages[0].content, "be brief");
  EXPECT_FALSE(conversation.add_generation_prompt);
}

TEST(ProtoConversionTest, RefusalsNameTheField) {
  const std::vector<std::pair<std::string, std::function<void(v1::GenerateRequest&)>>> table = {
      {"input", [](auto& r) { r.clear_input(); }},
      {"request_id", [](auto& r) { r.set_request_id(std::string(257, 'x')); }},
      {"token_ids", [](auto& r) { r.mutable_token_ids()->add_ids(0x80000000u); }},
      {"chat.messages[0].role", [](auto& r) { r.mutable_chat()->add_messages(); }},
      {"sampling.logit_bias",
       [](auto& r) { (*r.mutable_sampling()->mutable_logit_bias())[0xffffffffu] = 1; }},
      {"stopping.stop_token_ids",
       [](auto& r) { r.mutable_stopping()->add_stop_token_ids(0xffffffffu); }},
      {"eviction.policy",
       [](auto& r) {
         r.mutable_eviction()->set_policy(static_cast<v1::EvictionParams::Policy>(99));
       }},
      {"eviction.prefill_eviction",
       [](auto& r) {
         r.mutable_eviction()->set_prefill_eviction(
             static_cast<v1::EvictionParams::PrefillEviction>(99));
       }},
  };
  for (const auto& [field, spoil] : table) {
    v1::GenerateRequest message = Text();
    spoil(message);
    const auto request = FromProto(std::move(message));
    ASSERT_TRUE(absl::IsInvalidArgument(request.status())) << field;
    EXPECT_EQ(std::string(request.status().message()).rfind(field + ":", 0), 0u)
        << request.status();
  }
}

TEST(ProtoConversionTest, AppliedEvictionOfFullHasNoBudget) {
  engine::PromptInfo info;
  v1::PromptInfo out;
  ToProto(info, out);
  EXPECT_EQ(out.eviction().policy(), v1::EvictionParams::FULL);
  EXPECT_EQ(out.eviction().budget_case(), v1::EvictionParams::BUDGET_NOT_SET);
  EXPECT_FALSE(out.eviction().has_recent_tokens());
  EXPECT_FALSE(out.eviction().audit());
  info.eviction.audit = true;
  ToProto(info, out);
  EXPECT_TRUE(out.eviction().audit());
  EXPECT_EQ(out.sampling().temperature(), 1.f);
  EXPECT_TRUE(out.sampling().has_top_k());
}

TEST(ProtoConversionTest, FinishedTellsWhatMatched) {
  const auto convert = [](engine::Finished finished) {
    v1::Finished out;
    ToProto(finished, out);
    return out;
  };
  engine::Finished finished;
  finished.reason = engine::FinishReason::kLength;
  finished.usage.kv_bytes = int64_t{5} << 32;
  EXPECT_EQ(convert(finished).reason(), v1::Finished::LENGTH);
  EXPECT_EQ(convert(finished).matched_case(), v1::Finished::MATCHED_NOT_SET);
  EXPECT_EQ(convert(finished).usage().kv_bytes(), int64_t{5} << 32);
  EXPECT_FALSE(convert(finished).usage().has_recall());
  finished.usage.recall = engine::Recall{
      .mean = 0.75, .p5 = 0.5, .steps = 3, .complete = false, .layer_means = {0.5, 1}};
  const v1::Recall recall = convert(finished).usage().recall();
  EXPECT_EQ(recall.mean(), 0.75);
  EXPECT_EQ(recall.p5(), 0.5);
  EXPECT_EQ(recall.steps(), 3);
  EXPECT_TRUE(recall.ended_early());
  finished.usage.recall->complete = true;
  EXPECT_FALSE(convert(finished).usage().recall().ended_early());
  finished.reason = engine::FinishReason::kStop;
  finished.matched = std::string("stop");
  EXPECT_EQ(convert(finished).stop(), "stop");
  finished.matched = int32_t{0};
  EXPECT_EQ(convert(finished).matched_case(), v1::Finished::kStopTokenId);
}

TEST(ProtoConversionTest, LogprobsArrive) {
  engine::Delta delta;
  delta.text = "t";
  delta.token_ids = {4};
  delta.logprobs = {{.token_id = 4, .logprob = -0.5f, .top = {{4, -0.5f, "t"}, {5, -1.f, "u"}}},
                    {.token_id = 6, .logprob = {}, .top = {}}};
  v1::Delta out;
  ToProto(delta, out);
  ASSERT_EQ(out.logprobs_size(), 2);
  EXPECT_EQ(out.logprobs(0).logprob(), -0.5f);
  EXPECT_EQ(out.logprobs(0).top(1).text(), "u");
  EXPECT_FALSE(out.logprobs(1).has_logprob());
}

}  // namespace
}  // namespace hydrant::server
