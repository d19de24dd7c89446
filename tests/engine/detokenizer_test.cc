#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/utf8.h"

namespace hydrant::engine {
namespace {

class Detokenizer : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    auto tokenizer =
        Tokenizer::FromDirectory(std::string(HYDRANT_TEST_DATA "/golden/") + GetParam());
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    tokenizer_ = *std::move(tokenizer);
  }
  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_P(Detokenizer, PartsAreWholeCharactersAndAddUpToDecode) {
  std::mt19937 random(3);
  for (int round = 0; round < 2000; ++round) {
    std::vector<int32_t> ids(random() % 30);
    // Bytes more often than not, and now and then an id that does not exist.
    for (int32_t& id : ids) id = random() % 3 ? random() % 260 : random() % 645;
    const bool skip = random() % 2;
    IncrementalDetokenizer detokenizer(*tokenizer_, skip);
    std::string text;
    for (const int32_t id : ids) {
      const std::string part = detokenizer.Add(id);
      EXPECT_TRUE(IsValidUtf8(part));
      text += part;
    }
    text += detokenizer.Flush();
    EXPECT_EQ(text, tokenizer_->Decode(ids, skip));
  }
}

TEST_P(Detokenizer, TextComesAsSoonAsItIsCertain) {
  const std::vector<int32_t> ids = tokenizer_->Encode("one two", false);
  IncrementalDetokenizer detokenizer(*tokenizer_, true);
  std::string text;
  for (const int32_t id : ids) text += detokenizer.Add(id);
  EXPECT_EQ(text, "one two");
  EXPECT_EQ(detokenizer.Flush(), "");
}

TEST_P(Detokenizer, AnUnfinishedCharacterIsHeldBackUntilTheEnd) {
  std::vector<int32_t> ids = tokenizer_->Encode("a東", false);
  ids.pop_back();  // the last byte of three
  IncrementalDetokenizer detokenizer(*tokenizer_, false);
  std::string text;
  for (const int32_t id : ids) text += detokenizer.Add(id);
  EXPECT_EQ(text, "a");
  EXPECT_TRUE(detokenizer.Flush().starts_with("\uFFFD"));
}

TEST_P(Detokenizer, NothingGivesNothing) {
  IncrementalDetokenizer detokenizer(*tokenizer_, true);
  EXPECT_EQ(detokenizer.Add(-1), "");
  EXPECT_EQ(detokenizer.Flush(), "");
}

INSTANTIATE_TEST_SUITE_P(Golden, Detokenizer, testing::Values("llama-gqa", "llama-spm-bf16"));

}  // namespace
}  // namespace hydrant::engine
