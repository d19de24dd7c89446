#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "server/bench/request_source.h"

namespace hydrant::server::bench {
namespace {

using Ids = std::vector<uint32_t>;

RequestTemplate Template(Range max_tokens = {5, 5}, uint64_t seed = 1) {
  RequestTemplate common{{}, max_tokens, seed};
  common.message.mutable_sampling()->set_temperature(0);
  common.message.mutable_stopping()->set_ignore_eos(true);
  return common;
}

Vocabulary Words(int32_t size = 1000, std::vector<int32_t> without = {}) {
  return Vocabulary::Make(size, std::move(without)).value();
}

Ids IdsOf(const v1::GenerateRequest& request) {
  return {request.token_ids().ids().begin(), request.token_ids().ids().end()};
}

TEST(VocabularyTest, DrawsEveryTokenButThoseLeftOut) {
  const Vocabulary vocabulary = Words(8, {7, 0, 3, 3, 99, -1});
  Random random(1, 0);
  std::set<int32_t> drawn;
  for (int i = 0; i < 1000; ++i) drawn.insert(vocabulary.Draw(random));
  EXPECT_EQ(drawn, (std::set<int32_t>{1, 2, 4, 5, 6}));
  EXPECT_FALSE(Vocabulary::Make(0, {}).ok());
  EXPECT_FALSE(Vocabulary::Make(2, {0, 1}).ok());
}

TEST(RandomPromptsTest, AreAFunctionOfSeedAndNumber) {
  const auto source = RandomPrompts(Template(), Words(), {20, 20});
  const v1::GenerateRequest request = source->Make(3);
  EXPECT_EQ(IdsOf(request).size(), 20);
  EXPECT_EQ(request.stopping().max_tokens(), 5);
  EXPECT_TRUE(request.stopping().ignore_eos());
  EXPECT_FALSE(request.sampling().has_seed());  // greedy
  EXPECT_EQ(IdsOf(request), IdsOf(RandomPrompts(Template(), Words(), {20, 20})->Make(3)));
  EXPECT_NE(IdsOf(request), IdsOf(source->Make(4)));
  EXPECT_NE(IdsOf(request), IdsOf(source->Make(-3)));
  EXPECT_NE(IdsOf(request), IdsOf(RandomPrompts(Template({5, 5}, 2), Words(), {20, 20})->Make(3)));
}

TEST(RandomPromptsTest, DrawLengthsFromTheWholeRange) {
  const auto source = RandomPrompts(Template({1, 3}), Words(), {10, 12});
  std::set<size_t> prompts, outputs;
  for (int i = 0; i < 200; ++i) {
    prompts.insert(IdsOf(source->Make(i)).size());
    outputs.insert(source->Make(i).stopping().max_tokens());
  }
  EXPECT_EQ(prompts, (std::set<size_t>{10, 11, 12}));
  EXPECT_EQ(outputs, (std::set<size_t>{1, 2, 3}));
}

TEST(RandomPromptsTest, SampledRequestsHaveSeedsOfTheirOwn) {
  RequestTemplate common = Template();
  common.message.mutable_sampling()->set_temperature(1);
  const auto source = RandomPrompts(common, Words(), {4, 4});
  EXPECT_TRUE(source->Make(0).sampling().has_seed());
  EXPECT_NE(source->Make(0).sampling().seed(), source->Make(1).sampling().seed());
}

TEST(CutPromptsTest, TakesPieceAfterPieceAndBeginsAgain) {
  Ids tokens(11);
  std::iota(tokens.begin(), tokens.end(), 0);
  const auto source = CutPrompts(Template(), tokens, {4, 4}).value();
  EXPECT_EQ(IdsOf(source->Make(0)), (Ids{0, 1, 2, 3}));
  EXPECT_EQ(IdsOf(source->Make(1)), (Ids{4, 5, 6, 7}));
  EXPECT_EQ(IdsOf(source->Make(2)), (Ids{0, 1, 2, 3}));
  EXPECT_EQ(IdsOf(source->Make(-1)), (Ids{4, 5, 6, 7}));
  EXPECT_FALSE(CutPrompts(Template(), {1, 2, 3}, {4, 4}).ok());
}

RandomTokens Tokens(int32_t count, const char* prefix_id = "", int32_t prefix_count = 0) {
  return {count, prefix_id, prefix_count};
}

template <typename Prompt>
TraceRequest Line(Prompt prompt) {
  TraceRequest line;
  line.prompt = std::move(prompt);
  return line;
}

TEST(TracePromptsTest, FollowsTheLines) {
  RequestTemplate common = Template({7, 7});
  common.message.mutable_eviction()->set_policy(v1::EvictionParams::H2O);
  common.message.mutable_eviction()->set_budget_tokens(100);
  TraceRequest text = Line("hello"), ids = Line(std::vector<int32_t>{8, 9}), full = Line(Tokens(6));
  text.max_tokens = 2;
  ids.eviction.set_budget_ratio(0.5);
  full.eviction.set_policy(v1::EvictionParams::FULL);
  const auto source = TracePrompts(common, Words(), {text, ids, full});
  EXPECT_EQ(source->Make(0).text(), "hello");
  EXPECT_EQ(source->Make(0).stopping().max_tokens(), 2);
  EXPECT_EQ(source->Make(0).eviction().budget_tokens(), 100);
  EXPECT_EQ(IdsOf(source->Make(1)), (Ids{8, 9}));
  EXPECT_EQ(source->Make(1).stopping().max_tokens(), 7);
  EXPECT_EQ(source->Make(1).eviction().policy(), v1::EvictionParams::H2O);
  EXPECT_FALSE(source->Make(1).eviction().has_budget_tokens());
  EXPECT_EQ(source->Make(1).eviction().budget_ratio(), 0.5);
  EXPECT_EQ(source->Make(2).eviction().policy(), v1::EvictionParams::FULL);
  EXPECT_FALSE(source->Make(2).eviction().has_budget_tokens());
  EXPECT_EQ(source->Make(3).text(), "hello");
  EXPECT_NE(IdsOf(source->Make(2)), IdsOf(source->Make(5)));  // no cache helps the second time
}

TEST(TracePromptsTest, SharePrefixes) {
  const auto source = TracePrompts(
      Template(), Words(),
      {Line(Tokens(20, "a", 10)), Line(Tokens(30, "a", 15)), Line(Tokens(20, "b", 10))});
  const Ids first = IdsOf(source->Make(0)), second = IdsOf(source->Make(1));
  const Ids third = IdsOf(source->Make(2));
  ASSERT_EQ(first.size(), 20);
  ASSERT_EQ(second.size(), 30);
  EXPECT_TRUE(std::equal(first.begin(), first.begin() + 10, second.begin()));
  EXPECT_NE(first[10], second[10]);
  EXPECT_FALSE(std::equal(first.begin(), first.begin() + 10, third.begin()));
}

}  // namespace
}  // namespace hydrant::server::bench
