// What tools ask of the engine beside an answer: tokens that it is made to give, and which tokens
// were held at the end.

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "tests/engine/engine_driver.h"

namespace hydrant::engine {
namespace {

EngineOptions ExactOptions() {
  EngineOptions options = Options();
  options.weight_dtype = kernels::WeightDType::kF32;
  options.kv_dtype = kernels::KvDType::kF32;
  return options;
}

GenerateRequest Forced(std::vector<int32_t> prompt, std::vector<int32_t> tokens) {
  GenerateRequest request;
  request.input = std::move(prompt);
  request.forced_tokens = std::move(tokens);
  request.output.logprobs = 0;
  request.eviction.policy = EvictionPolicyKind::kFull;
  return request;
}

void SetBudget(GenerateRequest& request, EvictionPolicyKind policy, int32_t budget) {
  request.eviction.policy = policy;
  request.eviction.budget_tokens = budget;
}

std::vector<float> Logprobs(const Stream& stream) {
  std::vector<float> logprobs;
  for (const Delta& delta : stream.deltas) {
    for (const TokenLogprobs& l : delta.logprobs) logprobs.push_back(*l.logprob);
  }
  return logprobs;
}

TEST(ForcedTokensTest, HaveTheLogprobsThatTheyHaveInAPrompt) {
  const auto engine = LoadEngine(ExactOptions());
  const std::vector<int32_t> text = RandomPrompt(60, 1);
  GenerateRequest whole = Request(text, 1);
  whole.output.prompt_logprobs = 0;
  const auto read = Submit(*engine, whole);
  const auto forced =
      Submit(*engine, Forced({text.begin(), text.begin() + 25}, {text.begin() + 25, text.end()}));
  read->Wait();
  forced->Wait();
  ASSERT_TRUE(forced->finished);
  EXPECT_EQ(forced->tokens(), std::vector<int32_t>(text.begin() + 25, text.end()));
  EXPECT_EQ(forced->info->max_tokens, 35);
  EXPECT_EQ(forced->finished->reason, FinishReason::kLength);
  const std::vector<float> logprobs = Logprobs(*forced);
  ASSERT_EQ(logprobs.size(), 35u);
  for (size_t i = 0; i < logprobs.size(); ++i) {
    EXPECT_EQ(logprobs[i], *read->info->prompt_logprobs[25 + i].logprob) << i;
  }
}

TEST(ForcedTokensTest, ForcingTheAnswerOfAPolicyChangesNothing) {
  const auto engine = LoadEngine(ExactOptions());
  GenerateRequest free = Request(RandomPrompt(70, 2), 40);
  free.output.logprobs = 0;
  SetBudget(free, EvictionPolicyKind::kH2O, 24);
  const auto answered = Submit(*engine, free);
  answered->Wait();
  GenerateRequest forced = Forced(RandomPrompt(70, 2), answered->tokens());
  SetBudget(forced, EvictionPolicyKind::kH2O, 24);
  const auto again = Submit(*engine, forced);
  forced.forced_tokens[0] = (forced.forced_tokens[0] + 1) % 600;
  const auto other = Submit(*engine, forced);
  again->Wait();
  other->Wait();
  EXPECT_EQ(Logprobs(*again), Logprobs(*answered));
  EXPECT_NE(Logprobs(*other), Logprobs(*answered));
}

TEST(ForcedTokensTest, NothingElseEndsThem) {
  const auto engine = LoadEngine(Options());
  const int32_t eos = engine->model_info().eos_token_ids.at(0);
  GenerateRequest request = Forced(RandomPrompt(10, 3), {5, eos, 6, 7, 6, 7});
  request.stopping.stop_token_ids = {7};
  request.stopping.stop = {engine->tokenizer().TokenText(6)};
  const auto stream = Submit(*engine, request);
  stream->Wait();
  ASSERT_TRUE(stream->finished);
  EXPECT_EQ(stream->tokens(), request.forced_tokens);
}

TEST(ForcedTokensTest, AreRefusedWithFieldAndLimit) {
  const auto engine = LoadEngine(Options());
  const int32_t vocab = engine->model_info().vocab_size;
  const int32_t room = engine->model_info().max_model_len - 10;
  const auto refusal = [&](const GenerateRequest& request) {
    const absl::Status status = TrySubmit(*engine, request);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  EXPECT_NE(refusal(Forced(RandomPrompt(10, 4), {1, vocab})).find("forced_tokens"),
            std::string::npos);
  EXPECT_NE(refusal(Forced(RandomPrompt(10, 4), {-1})).find("forced_tokens"), std::string::npos);
  const std::string too_long =
      refusal(Forced(RandomPrompt(10, 4), std::vector<int32_t>(room + 1, 5)));
  EXPECT_NE(too_long.find("forced_tokens"), std::string::npos) << too_long;
  EXPECT_NE(too_long.find(std::to_string(room)), std::string::npos) << too_long;
  GenerateRequest both = Forced(RandomPrompt(10, 4), {5, 6});
  both.stopping.max_tokens = 2;
  EXPECT_NE(refusal(both).find("stopping.max_tokens"), std::string::npos);
}

// Of one layer and head.
std::vector<int32_t> PositionsOf(const HeldTokens& held, int32_t pair) {
  const auto begin = held.positions.begin() + static_cast<ptrdiff_t>(pair) * held.count;
  return {begin, begin + held.count};
}

std::vector<int32_t> Range(int32_t first, int32_t end) {
  std::vector<int32_t> range(end - first);
  std::iota(range.begin(), range.end(), first);
  return range;
}

// 99 tokens are fed: the last of the answer never is.
std::shared_ptr<Stream> RunHeld(Engine& engine, EvictionPolicyKind policy) {
  GenerateRequest request = Request(RandomPrompt(60, 5), 40);
  request.report_held = true;
  request.eviction.policy = policy;
  if (policy != EvictionPolicyKind::kFull) request.eviction.budget_tokens = 20;
  const auto stream = Submit(engine, request);
  stream->Wait();
  EXPECT_TRUE(stream->finished && stream->finished->held);
  const HeldTokens& held = *stream->finished->held;
  EXPECT_EQ(held.layers, engine.model_info().num_layers);
  EXPECT_EQ(held.kv_heads, engine.model_info().num_kv_heads);
  EXPECT_EQ(held.count, 99 - stream->finished->usage.evicted_tokens);
  EXPECT_EQ(held.positions.size(), size_t(held.layers) * held.kv_heads * held.count);
  return stream;
}

TEST(HeldTokensTest, AreThoseThatThePolicyKeeps) {
  const auto engine = LoadEngine(Options());
  const auto full = RunHeld(*engine, EvictionPolicyKind::kFull);
  const auto window = RunHeld(*engine, EvictionPolicyKind::kWindow);
  const auto streaming = RunHeld(*engine, EvictionPolicyKind::kStreaming);
  std::vector<int32_t> sink_and_recent = Range(0, 4);
  for (int32_t position : Range(82, 99)) sink_and_recent.push_back(position);
  const int32_t pairs = engine->model_info().num_layers * engine->model_info().num_kv_heads;
  for (int32_t pair = 0; pair < pairs; ++pair) {
    EXPECT_EQ(PositionsOf(*full->finished->held, pair), Range(0, 99));
    EXPECT_EQ(PositionsOf(*window->finished->held, pair), Range(78, 99));
    EXPECT_EQ(PositionsOf(*streaming->finished->held, pair), sink_and_recent);
  }
}

TEST(HeldTokensTest, DifferBetweenHeadsUnderH2O) {
  const auto engine = LoadEngine(Options());
  const auto stream = RunHeld(*engine, EvictionPolicyKind::kH2O);
  const AppliedEviction& applied = stream->info->eviction;
  const HeldTokens& held = *stream->finished->held;
  EXPECT_EQ(held.count, 21);
  const int32_t pairs = held.layers * held.kv_heads;
  bool differ = false;
  for (int32_t pair = 0; pair < pairs; ++pair) {
    const std::vector<int32_t> positions = PositionsOf(held, pair);
    EXPECT_TRUE(std::is_sorted(positions.begin(), positions.end()));
    EXPECT_EQ(std::adjacent_find(positions.begin(), positions.end()), positions.end());
    // The last token came after the eviction that left sink and recent ones.
    EXPECT_EQ(std::vector<int32_t>(positions.begin(), positions.begin() + applied.sink_tokens),
              Range(0, applied.sink_tokens));
    EXPECT_EQ(std::vector<int32_t>(positions.end() - applied.recent_tokens - 1, positions.end()),
              Range(98 - applied.recent_tokens, 99));
    differ |= positions != PositionsOf(held, 0);
  }
  EXPECT_TRUE(differ);
}

// The prompt's pass is also the last: it is not compacted any more.
TEST(HeldTokensTest, OfAnAnswerOfOneTokenIsTheWholePrompt) {
  const auto engine = LoadEngine(Options());
  GenerateRequest request = Request(RandomPrompt(60, 6), 1);
  SetBudget(request, EvictionPolicyKind::kH2O, 20);
  request.report_held = true;
  const auto stream = Submit(*engine, request);
  stream->Wait();
  ASSERT_TRUE(stream->finished && stream->finished->held);
  EXPECT_EQ(PositionsOf(*stream->finished->held, 0), Range(0, 60));
}

TEST(HeldTokensTest, AreToldOnlyWhenAskedFor) {
  const auto engine = LoadEngine(Options());
  const auto stream = Submit(*engine, Request(RandomPrompt(10, 7), 3));
  stream->Wait();
  ASSERT_TRUE(stream->finished);
  EXPECT_FALSE(stream->finished->held);
}

}  // namespace
}  // namespace hydrant::engine
