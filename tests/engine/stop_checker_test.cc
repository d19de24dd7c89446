#include "engine/stop_checker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace hydrant::engine {
namespace {

StopConditions Stops(std::vector<std::string> stop, bool include = false) {
  StopConditions conditions;
  conditions.max_tokens = 1 << 20;
  conditions.stop = std::move(stop);
  conditions.include_stop_str_in_output = include;
  return conditions;
}

struct Outcome {
  std::vector<std::string> texts;  // of each Add, then of Flush
  bool stopped = false;            // by a stop string
  std::string matched;

  std::string all() const {
    std::string all;
    for (const std::string& text : texts) all += text;
    return all;
  }
};

// Feeds one piece a token until a stop string ends it; else flushes.
Outcome Feed(const StopConditions& conditions, const std::vector<std::string>& pieces) {
  StopChecker checker(conditions);
  Outcome run;
  StopChecker::Result result;
  for (const std::string& piece : pieces) {
    result = checker.Add(7, piece);
    run.texts.push_back(result.text);
    if (result.finished) break;
  }
  if (!result.finished) {
    result = checker.Flush("");
    run.texts.push_back(result.text);
  }
  if (result.finished && std::holds_alternative<std::string>(result.matched)) {
    run.stopped = true;
    run.matched = std::get<std::string>(result.matched);
    EXPECT_EQ(result.reason, FinishReason::kStop);
  }
  return run;
}

using Texts = std::vector<std::string>;

TEST(StopCheckerTest, WithoutStopStringsNothingIsHeldBack) {
  EXPECT_EQ(Feed(Stops({}), {"Hello", ",", "", " world"}).texts,
            (Texts{"Hello", ",", "", " world", ""}));
}

TEST(StopCheckerTest, CutsBeforeTheMatch) {
  const Outcome run = Feed(Stops({"END"}), {"one END two"});
  EXPECT_EQ(run.texts, Texts{"one "});
  EXPECT_EQ(run.matched, "END");
}

TEST(StopCheckerTest, IncludesTheMatchAndNothingAfterIt) {
  EXPECT_EQ(Feed(Stops({"END"}, true), {"one E", "ND two"}).texts, (Texts{"one ", "END"}));
}

TEST(StopCheckerTest, MatchSplitOverTokens) {
  const Outcome run = Feed(Stops({"</end>"}), {"a<", "/", "en", "d", ">b"});
  EXPECT_EQ(run.texts, (Texts{"a", "", "", "", ""}));
  EXPECT_TRUE(run.stopped);
}

TEST(StopCheckerTest, HoldsBackOnlyWhatCouldStillBecomeAStopString) {
  EXPECT_EQ(Feed(Stops({"abac"}), {"xaba", "b", "ad"}).texts, (Texts{"x", "ab", "abad", ""}));
  EXPECT_EQ(Feed(Stops({"abac"}), {"ab", "x"}).texts, (Texts{"", "abx", ""}));
  EXPECT_EQ(Feed(Stops({"\n\n"}), {"a\n", "b"}).texts, (Texts{"a", "\nb", ""}));
}

TEST(StopCheckerTest, FlushGivesWhatIsHeldBack) {
  EXPECT_EQ(Feed(Stops({"abcd"}), {"xabc"}).texts, (Texts{"x", "abc"}));
}

TEST(StopCheckerTest, FlushMayFindTheMatch) {
  StopChecker checker(Stops({"ab\xEF\xBF\xBD"}));
  EXPECT_EQ(checker.Add(1, "xab").text, "x");
  const StopChecker::Result result = checker.Flush("\xEF\xBF\xBD");
  EXPECT_TRUE(result.finished);
  EXPECT_EQ(result.text, "");
}

TEST(StopCheckerTest, TheEarliestMatchWins) {
  Outcome run = Feed(Stops({"cd", "bc"}), {"abcde"});
  EXPECT_EQ(run.texts, Texts{"a"});
  EXPECT_EQ(run.matched, "bc");
  // Of those that start together the first listed.
  run = Feed(Stops({"ab", "abc"}, true), {"abc"});
  EXPECT_EQ(run.matched, "ab");
  EXPECT_EQ(run.texts, Texts{"ab"});
  run = Feed(Stops({"abc", "ab"}, true), {"abc"});
  EXPECT_EQ(run.matched, "abc");
  // The first token that completes one ends the stream, though a longer one began before it.
  run = Feed(Stops({"abcd", "bc"}), {"ab", "c", "d"});
  EXPECT_EQ(run.matched, "bc");
  EXPECT_EQ(run.texts, (Texts{"", "a"}));
}

TEST(StopCheckerTest, OverlappingCandidatesOfSeveralStops) {
  // "aab" fails but its end begins "abx".
  EXPECT_EQ(Feed(Stops({"aac", "abx"}), {"a", "a", "b", "y"}).texts,
            (Texts{"", "", "a", "aby", ""}));
}

TEST(StopCheckerTest, CutsMultiByteCharactersAtTheirBorders) {
  EXPECT_EQ(Feed(Stops({"é!"}), {"aé", "è", "é", "!"}).texts, (Texts{"a", "éè", "", ""}));
  // Strings that begin or end inside a character cannot match whole ones.
  EXPECT_EQ(Feed(Stops({"\xA9"}), {"é", "a"}).texts, (Texts{"é", "a", ""}));
  EXPECT_EQ(Feed(Stops({"\xC3"}, true), {"é", "a"}).texts, (Texts{"é", "a", ""}));
  EXPECT_EQ(Feed(Stops({"a\xF0\x9F"}), {"a😀"}).texts, (Texts{"a😀", ""}));
}

TEST(StopCheckerTest, StopTokens) {
  StopConditions conditions = Stops({"xyz"});
  conditions.eos_token_ids = {2};
  conditions.stop_token_ids = {5};
  for (int32_t id : {2, 5}) {
    StopChecker checker(conditions);
    EXPECT_FALSE(checker.IsStopToken(7));
    EXPECT_FALSE(checker.HidesText(7));
    EXPECT_TRUE(checker.IsStopToken(id));
    EXPECT_TRUE(checker.HidesText(id));
    checker.Add(7, "ax");
    const StopChecker::Result result = checker.Add(id, "");
    EXPECT_TRUE(result.finished);
    EXPECT_EQ(result.reason, FinishReason::kStop);
    EXPECT_EQ(std::get<int32_t>(result.matched), id);
    const StopChecker::Result rest = checker.Flush("");
    EXPECT_EQ(result.text + rest.text, "x");
    EXPECT_FALSE(rest.finished);
  }
  conditions.include_stop_str_in_output = true;
  StopChecker checker(conditions);
  EXPECT_TRUE(checker.HidesText(2));
  EXPECT_FALSE(checker.HidesText(5));
  EXPECT_EQ(checker.Add(5, "stop").text, "stop");
}

TEST(StopCheckerTest, Length) {
  StopConditions conditions = Stops({"xyz"});
  conditions.max_tokens = 2;
  conditions.eos_token_ids = {2};
  StopChecker checker(conditions);
  EXPECT_FALSE(checker.Add(7, "a").finished);
  const StopChecker::Result result = checker.Add(7, "bx");
  EXPECT_TRUE(result.finished);
  EXPECT_EQ(result.reason, FinishReason::kLength);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(result.matched));
  EXPECT_EQ(result.text + checker.Flush("").text, "bx");
  // What ends at its last token anyway is a stop, not the length.
  StopChecker eos(conditions);
  eos.Add(7, "a");
  EXPECT_EQ(eos.Add(2, "").reason, FinishReason::kStop);
  StopChecker stop(conditions);
  stop.Add(7, "x");
  EXPECT_EQ(stop.Add(7, "yz").reason, FinishReason::kStop);
}

TEST(StopCheckerTest, NothingStopsBelowMinTokens) {
  StopConditions conditions = Stops({"aa"});
  conditions.min_tokens = 3;
  conditions.eos_token_ids = {2};
  conditions.stop_token_ids = {5};
  StopChecker checker(conditions);
  const std::vector<int32_t> both = {2, 5};
  EXPECT_TRUE(std::ranges::equal(checker.banned(), both));
  EXPECT_FALSE(checker.IsStopToken(2));
  EXPECT_EQ(checker.Add(7, "baa").text, "ba");
  // The match that was not counted stays uncounted.
  EXPECT_EQ(checker.Add(7, "b").text, "ab");
  EXPECT_TRUE(std::ranges::equal(checker.banned(), both));
  const StopChecker::Result result = checker.Add(7, "baab");
  EXPECT_TRUE(result.finished);
  EXPECT_EQ(result.text, "b");
  EXPECT_TRUE(checker.banned().empty());
  EXPECT_TRUE(checker.IsStopToken(2));
}

// The words of the contract on the whole text: the stream ends with the first token after which the
// text holds a stop string, and is cut at the earliest of them.
TEST(StopCheckerTest, RandomTextsMatchAWholeTextSearch) {
  std::mt19937 rng(1);
  int stopped = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    const std::vector<std::string> alphabet = {"a", "b", "é", "è"};
    const auto word = [&](int min, int max) {
      std::string s;
      for (int n = min + rng() % (max - min + 1); n > 0; --n) s += alphabet[rng() % 4];
      return s;
    };
    Texts stops;
    for (int n = rng() % 4; n > 0; --n) stops.push_back(word(1, 5));
    Texts pieces;
    for (int n = rng() % 20; n > 0; --n) pieces.push_back(word(0, 4));
    StopConditions conditions = Stops(stops, rng() % 2);
    conditions.min_tokens = rng() % 3 == 0 ? rng() % 6 : 0;

    std::string whole, expected, matched;
    size_t sent_at_least = 0;
    for (size_t i = 0; i < pieces.size() && matched.empty(); ++i) {
      const size_t before = whole.size();
      whole += pieces[i];
      if (static_cast<int32_t>(i) + 1 < conditions.min_tokens) continue;
      size_t best = std::string::npos;
      for (const std::string& stop : stops) {
        // A match counts where this piece completes it.
        const size_t from = before < stop.size() ? 0 : before - stop.size() + 1;
        const size_t at = whole.find(stop, from);
        if (at == std::string::npos || at + stop.size() <= before || at >= best) continue;
        best = at;
        matched = stop;
      }
      if (best != std::string::npos) {
        expected =
            whole.substr(0, best + (conditions.include_stop_str_in_output ? matched.size() : 0));
      }
    }
    if (matched.empty()) expected = whole;

    const Outcome run = Feed(conditions, pieces);
    ASSERT_EQ(run.all(), expected) << trial;
    ASSERT_EQ(run.stopped, !matched.empty());
    ASSERT_EQ(run.matched, matched);
    stopped += run.stopped;

    // Nothing more is held back than the longest end that begins a stop string.
    std::string sent, so_far;
    for (size_t i = 0; i + 1 < run.texts.size(); ++i) {
      sent += run.texts[i];
      so_far += pieces[i];
      sent_at_least = so_far.size();
      for (const std::string& stop : stops) {
        for (size_t n = std::min(stop.size() - 1, so_far.size()); n > 0; --n) {
          if (!so_far.ends_with(stop.substr(0, n))) continue;
          sent_at_least = std::min(sent_at_least, so_far.size() - n);
          break;
        }
      }
      ASSERT_EQ(sent.size(), sent_at_least);
    }
  }
  EXPECT_GT(stopped, 2000);
}

}  // namespace
}  // namespace hydrant::engine
