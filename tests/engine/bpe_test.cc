#include "engine/tokenizer/bpe.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

namespace hydrant::engine {
namespace {

// A vocabulary of single letters and random merges of what is there already.
struct RandomMerges {
  std::vector<std::pair<std::string, int64_t>> tokens;
  std::vector<std::pair<std::string, std::string>> merges;
  std::map<std::string, int32_t> ids;

  RandomMerges(std::mt19937& random, int letters, int count) {
    const auto add = [&](const std::string& token) {
      if (!ids.emplace(token, static_cast<int32_t>(tokens.size())).second) return;
      tokens.emplace_back(token, tokens.size());
    };
    for (int i = 0; i < letters; ++i) add(std::string(1, static_cast<char>('a' + i)));
    for (int i = 0; i < count; ++i) {
      const std::string left = tokens[random() % tokens.size()].first;
      const std::string right = tokens[random() % tokens.size()].first;
      if (left.size() + right.size() > 12) continue;
      merges.emplace_back(left, right);
      add(left + right);
    }
  }

  std::unique_ptr<Bpe> Make(BpeOptions options) const {
    auto vocabulary = Vocabulary::Create(tokens);
    EXPECT_TRUE(vocabulary.ok()) << vocabulary.status();
    auto bpe = Bpe::Create(*std::move(vocabulary),
                           std::vector<Bpe::Merge>(merges.begin(), merges.end()), options);
    EXPECT_TRUE(bpe.ok()) << bpe.status();
    return *std::move(bpe);
  }

  // By the definition: find the best pair, merge its leftmost occurrence, start again. The last of
  // equal merges counts.
  std::vector<int32_t> Slowly(const std::string& text) const {
    std::map<std::pair<std::string, std::string>, size_t> ranks;
    for (size_t i = 0; i < merges.size(); ++i) ranks[merges[i]] = i;
    std::vector<std::string> symbols;
    for (const char c : text) symbols.emplace_back(1, c);
    while (true) {
      size_t best = merges.size(), at = 0;
      for (size_t i = 0; i + 1 < symbols.size(); ++i) {
        const auto rank = ranks.find({symbols[i], symbols[i + 1]});
        if (rank != ranks.end() && rank->second < best) {
          best = rank->second;
          at = i;
        }
      }
      if (best == merges.size()) break;
      symbols[at] += symbols[at + 1];
      symbols.erase(symbols.begin() + at + 1);
    }
    std::vector<int32_t> result;
    for (const std::string& symbol : symbols) result.push_back(ids.at(symbol));
    return result;
  }
};

std::vector<int32_t> Tokenize(const Bpe& bpe, const std::string& text) {
  std::vector<int32_t> ids;
  bpe.Tokenize(Pieces(text, true), ids);
  return ids;
}

TEST(BpeTest, MergesAsTheDefinitionSays) {
  std::mt19937 random(5);
  for (int vocabulary = 0; vocabulary < 30; ++vocabulary) {
    const int letters = 2 + random() % 4;
    const RandomMerges merges(random, letters, 2 + random() % 40);
    const auto bpe = merges.Make({});
    for (int round = 0; round < 60; ++round) {
      std::string text(random() % 40, ' ');
      for (char& c : text) c = static_cast<char>('a' + random() % letters);
      EXPECT_EQ(Tokenize(*bpe, text), merges.Slowly(text)) << text;
    }
    // Words of the vocabulary itself take a path of their own.
    for (const auto& [token, id] : merges.tokens) {
      EXPECT_EQ(Tokenize(*bpe, token), merges.Slowly(token)) << token;
    }
  }
}

std::unique_ptr<Bpe> Small(std::vector<std::string> tokens, std::vector<Bpe::Merge> merges,
                           BpeOptions options) {
  std::vector<std::pair<std::string, int64_t>> numbered;
  for (std::string& token : tokens) numbered.emplace_back(std::move(token), numbered.size());
  auto bpe = Bpe::Create(*Vocabulary::Create(std::move(numbered)), merges, options);
  EXPECT_TRUE(bpe.ok()) << bpe.status();
  return *std::move(bpe);
}

TEST(BpeTest, IgnoreMergesTakesAWholeTokenThatNoMergeReaches) {
  EXPECT_EQ(Tokenize(*Small({"a", "b", "ab"}, {}, {}), "ab"), (std::vector{0, 1}));
  BpeOptions options;
  options.ignore_merges = true;
  EXPECT_EQ(Tokenize(*Small({"a", "b", "ab"}, {}, options), "ab"), std::vector{2});
}

TEST(BpeTest, UnknownCharactersVanishOrBecomeUnk) {
  const std::vector<std::string> tokens = {"<unk>", "a"};
  EXPECT_EQ(Tokenize(*Small(tokens, {}, {}), "é東a東"), std::vector{1});
  EXPECT_EQ(Tokenize(*Small(tokens, {}, {.unk_id = 0}), "é東a東"), (std::vector{0, 0, 1, 0}));
  EXPECT_EQ(Tokenize(*Small(tokens, {}, {.unk_id = 0, .fuse_unk = true}), "é東a東"),
            (std::vector{0, 1, 0}));
}

TEST(BpeTest, ByteFallbackNeedsAllBytesOfACharacter) {
  const std::vector<std::string> tokens = {"<unk>", "<0xC3>", "<0xA9>", "a"};
  const auto bpe = Small(tokens, {}, {.unk_id = 0, .byte_fallback = true});
  EXPECT_EQ(Tokenize(*bpe, "éa"), (std::vector{1, 2, 3}));
  EXPECT_EQ(Tokenize(*bpe, "èa"), (std::vector{0, 3}));
}

TEST(BpeTest, MergesOutsideOfTheVocabularyAreErrors) {
  for (const Bpe::Merge& merge :
       {Bpe::Merge("a", "x"), Bpe::Merge("x", "a"), Bpe::Merge("a", "a")}) {
    const auto bpe = Bpe::Create(*Vocabulary::Create({{"a", 0}}), {merge}, {});
    EXPECT_EQ(bpe.status().code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace hydrant::engine
