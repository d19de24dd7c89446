// What `hydrant explain` gathers, from a small checkpoint.

#include "server/explain/explainer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/tokenizer.h"
#include "server/explain/page.h"
#include "server/explain/page_sections.h"

namespace hydrant::server {
namespace {

std::unique_ptr<engine::Engine> LoadEngine() {
  engine::EngineOptions options;
  options.model_path = HYDRANT_TEST_DATA "/golden/llama-gqa";
  options.threads = 2;
  options.kv_cache_bytes = 8 << 20;
  auto engine = engine::Engine::Load(options, nullptr, [](std::string_view, double) {});
  EXPECT_TRUE(engine.ok()) << engine.status();
  return *std::move(engine);
}

engine::GenerateRequest H2oRequest(std::string prompt) {
  engine::GenerateRequest request;
  request.input = std::move(prompt);
  request.stopping.max_tokens = 30;
  request.stopping.ignore_eos = true;
  request.eviction.policy = engine::EvictionPolicyKind::kH2O;
  request.eviction.budget_tokens = 24;
  return request;
}

std::string TextOf(const std::vector<PageToken>& tokens) {
  std::string text;
  for (const PageToken& token : tokens) text += token.text;
  return text;
}

TEST(ExplainerTest, TokensAddUpToTheText) {
  const auto engine = LoadEngine();
  const std::string text = "plain, é, 日本 and 😀𒀀 <b>\n";
  const std::vector<int32_t> ids = engine->tokenizer().Encode(text, false);
  const std::vector<PageToken> tokens = ToPageTokens(engine->tokenizer(), ids);
  EXPECT_EQ(tokens.size(), ids.size());
  EXPECT_EQ(TextOf(tokens), text);
  // Some character is of several tokens.
  EXPECT_TRUE(std::any_of(tokens.begin(), tokens.end(),
                          [](const PageToken& token) { return token.text.empty(); }));
}

TEST(ExplainerTest, AnUnfinishedCharacterIsTheLastTokens) {
  const auto engine = LoadEngine();
  std::vector<int32_t> ids = engine->tokenizer().Encode("a𒀀", false);
  ids.pop_back();
  const std::vector<PageToken> tokens = ToPageTokens(engine->tokenizer(), ids);
  EXPECT_EQ(tokens.back().text, "\xEF\xBF\xBD");
}

TEST(ExplainerTest, RunsUnderThePolicyAndWithEverything) {
  const auto engine = LoadEngine();
  const std::string prompt = "The licensor grants each contributor a copyright licence to use it. ";
  const auto explained = Explain(*engine, H2oRequest(prompt + prompt));
  ASSERT_TRUE(explained.ok()) << explained.status();
  const Explanation& e = *explained;
  EXPECT_EQ(e.eviction.policy, engine::EvictionPolicyKind::kH2O);
  EXPECT_NE(TextOf(e.prompt).find(prompt + prompt), std::string::npos);
  EXPECT_EQ(e.answer.size(), 30u);
  EXPECT_EQ(e.full_answer.size(), 30u);
  EXPECT_TRUE(FirstDifference(e.answer, e.full_answer));
  EXPECT_EQ(e.held.count, 25);
  EXPECT_EQ(e.usage.evicted_tokens, FedTokens(e) - 25);
  ASSERT_TRUE(e.usage.recall);
  EXPECT_GT(e.usage.recall->steps, 0);
  EXPECT_LT(e.usage.recall->mean, 1);
  EXPECT_FALSE(MakePage(e).empty());
}

TEST(ExplainerTest, ABudgetThatCoversEverythingGivesTheFullAnswer) {
  const auto engine = LoadEngine();
  engine::GenerateRequest request = H2oRequest("The licensor");
  request.eviction.budget_tokens = 100;
  const auto explained = Explain(*engine, request);
  ASSERT_TRUE(explained.ok()) << explained.status();
  EXPECT_FALSE(FirstDifference(explained->answer, explained->full_answer));
  EXPECT_EQ(explained->usage.evicted_tokens, 0);
}

TEST(ExplainerTest, RefusalsAreTheEngines) {
  const auto engine = LoadEngine();
  engine::GenerateRequest request = H2oRequest("The licensor");
  request.eviction.budget_tokens = 0;
  const auto refused = Explain(*engine, request);
  EXPECT_TRUE(absl::IsInvalidArgument(refused.status())) << refused.status();
}

// The full cache's answer may need more memory than there is.
TEST(ExplainerTest, AFullCacheThatDoesNotFitIsAnError) {
  engine::EngineOptions options;
  options.model_path = HYDRANT_TEST_DATA "/golden/llama-gqa";
  options.kv_cache_bytes = 100 << 10;
  auto engine = engine::Engine::Load(options, nullptr, [](std::string_view, double) {});
  ASSERT_TRUE(engine.ok()) << engine.status();
  engine::GenerateRequest request = H2oRequest("The licensor");
  request.stopping.max_tokens = 400;
  const auto refused = Explain(**engine, request);
  EXPECT_TRUE(absl::IsInvalidArgument(refused.status())) << refused.status();
}

}  // namespace
}  // namespace hydrant::server
