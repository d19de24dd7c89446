#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "server/bench/trace.h"

namespace hydrant::server::bench {
namespace {

TEST(ParseTraceTest, ReadsEachKindOfPrompt) {
  const auto trace = ParseTrace("t.jsonl", R"({"prompt_tokens": 9, "max_tokens": 3, "arrival": 0.5}

{"text": "Once, \"twice\""}
{"token_ids": [4, 5, 6], "max_tokens": 7})");
  ASSERT_TRUE(trace.ok()) << trace.status();
  ASSERT_EQ(trace->size(), 3);
  EXPECT_EQ(std::get<RandomTokens>((*trace)[0].prompt).count, 9);
  EXPECT_EQ((*trace)[0].max_tokens, 3);
  EXPECT_EQ((*trace)[0].arrival, 0.5);
  EXPECT_EQ(std::get<std::string>((*trace)[1].prompt), "Once, \"twice\"");
  EXPECT_FALSE((*trace)[1].max_tokens);
  EXPECT_FALSE((*trace)[1].arrival);
  EXPECT_EQ(std::get<std::vector<int32_t>>((*trace)[2].prompt), (std::vector<int32_t>{4, 5, 6}));
  EXPECT_EQ((*trace)[2].line, 4);
}

TEST(ParseTraceTest, ReadsPrefixes) {
  const auto trace =
      ParseTrace("t",
                 "{\"prompt_tokens\": 9, \"prefix_id\": \"a\", \"prefix_tokens\": 9}\r\n"
                 "{\"prompt_tokens\": 9, \"prefix_id\": 12, \"prefix_tokens\": 1}\r\n");
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(std::get<RandomTokens>((*trace)[0].prompt).prefix_id, "a");
  EXPECT_EQ(std::get<RandomTokens>((*trace)[0].prompt).prefix_count, 9);
  EXPECT_EQ(std::get<RandomTokens>((*trace)[1].prompt).prefix_id, "12");
}

TEST(ParseTraceTest, ReadsEviction) {
  const auto trace = ParseTrace(
      "t", R"({"text": "x", "eviction": {"policy": "H2O", "budget_tokens": 64, "sink_tokens": 0,
               "recent_tokens": 8, "prefill_eviction": "per_chunk", "audit": true}})");
  ASSERT_FALSE(trace.ok());  // one object a line
  const auto line = ParseTrace(
      "t", R"({"text": "x", "eviction": {"policy": "h2o", "budget_tokens": 64, "sink_tokens": 0, )"
           R"("recent_tokens": 8, "prefill_eviction": "per_chunk", "audit": true}})");
  ASSERT_TRUE(line.ok()) << line.status();
  const v1::EvictionParams& eviction = (*line)[0].eviction;
  EXPECT_EQ(eviction.policy(), v1::EvictionParams::H2O);
  EXPECT_EQ(eviction.budget_tokens(), 64);
  EXPECT_TRUE(eviction.has_sink_tokens());
  EXPECT_EQ(eviction.recent_tokens(), 8);
  EXPECT_EQ(eviction.prefill_eviction(), v1::EvictionParams::PER_CHUNK);
  EXPECT_TRUE(eviction.audit());
  EXPECT_FALSE(eviction.has_min_budget_tokens());
}

TEST(ParseTraceTest, NamesTheFileTheLineAndWhatIsWrong) {
  const std::pair<const char*, const char*> kWrong[] = {
      {"", "no requests"},
      {"{", ""},
      {"[1]", ""},
      {"7", ""},
      {"{}", "prompt_tokens, text and token_ids"},
      {R"({"text": "x", "prompt_tokens": 3})", "prompt_tokens, text and token_ids"},
      {R"({"text": ""})", "text"},
      {R"({"text": 5})", "text"},
      {R"({"prompt_tokens": 0})", "prompt_tokens"},
      {R"({"prompt_tokens": 1000001})", "prompt_tokens"},
      {R"({"prompt_tokens": "9"})", "prompt_tokens"},
      {R"({"token_ids": []})", "token_ids"},
      {R"({"token_ids": [-1]})", "token_ids"},
      {R"({"token_ids": [1.5]})", "token_ids"},
      {R"({"token_ids": [99999999999]})", "token_ids"},
      {R"({"prompt_tokens": 3, "max_tokens": 0})", "max_tokens"},
      {R"({"prompt_tokens": 3, "arrival": -1})", "arrival"},
      {R"({"prompt_tokens": 3, "arrival": 1e99})", "arrival"},
      {R"({"prompt_tokens": 3, "arival": 1})", "arival"},
      {R"({"prompt_tokens": 3, "prefix_id": "a"})", "prefix_tokens"},
      {R"({"prompt_tokens": 3, "prefix_tokens": 2})", "prefix_id"},
      {R"({"prompt_tokens": 3, "prefix_id": "a", "prefix_tokens": 4})", "prefix_tokens"},
      {R"({"prompt_tokens": 3, "prefix_id": [], "prefix_tokens": 2})", "prefix_id"},
      {R"({"text": "x", "prefix_id": "a", "prefix_tokens": 1})", "prefix_id"},
      {R"({"text": "x", "eviction": 3})", "eviction"},
      {R"({"text": "x", "eviction": {"policy": "lru"}})", "policy"},
      {R"({"text": "x", "eviction": {"policy": "policy_unspecified"}})", "policy"},
      {R"({"text": "x", "eviction": {"budget": 3}})", "budget"},
      {R"({"text": "x", "eviction": {"budget_tokens": 3, "budget_ratio": 0.5}})", "exclude"},
      {R"({"text": "x", "eviction": {"prefill_eviction": "never"}})", "prefill_eviction"},
      {R"({"text": "x", "text": "y"})", "text"},
  };
  for (const auto& [line, what] : kWrong) {
    const auto trace =
        ParseTrace("dir/t.jsonl", *line ? std::string("{\"text\": \"fine\"}\n") + line : "");
    ASSERT_FALSE(trace.ok()) << line;
    const std::string message(trace.status().message());
    EXPECT_EQ(message.find(*line ? "dir/t.jsonl:2: " : "dir/t.jsonl: "), 0) << message;
    EXPECT_NE(message.find(what), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace hydrant::server::bench
