// The whole tokenizer against Hugging Face's ids and texts: golden checkpoints and real
// vocabularies.

#include "engine/tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "engine/weights/gguf.h"

namespace hydrant::engine {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  EXPECT_TRUE(stream) << path;
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

// Python writes an infinite number as Infinity, which JSON has no word for.
nlohmann::json ReadGolden(const std::string& path) {
  const std::string text = ReadFile(path);
  return nlohmann::json::parse(std::regex_replace(text, std::regex(": Infinity"), ": null"));
}

std::unique_ptr<Tokenizer> FromGguf(const std::string& path) {
  auto file = weights::GgufFile::Open(path);
  EXPECT_TRUE(file.ok()) << file.status();
  auto tokenizer = Tokenizer::FromGguf(**file);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return *std::move(tokenizer);
}

std::unique_ptr<Tokenizer> Vocabulary(const std::string& name) {
  return FromGguf(std::string(HYDRANT_TEST_VOCABULARIES "/ggml-vocab-") + name + ".gguf");
}

class GoldenTokenizer : public testing::TestWithParam<const char*> {};

TEST_P(GoldenTokenizer, EqualsHuggingFace) {
  const std::string directory = std::string(HYDRANT_TEST_DATA "/golden/") + GetParam();
  const auto tokenizer = Tokenizer::FromDirectory(directory);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const auto golden = ReadGolden(directory + "/golden.json");
  ASSERT_FALSE(golden["tokenizer"].empty());
  for (const auto& example : golden["tokenizer"]) {
    const auto text = example["text"].get<std::string>();
    const auto ids = example["ids"].get<std::vector<int32_t>>();
    EXPECT_EQ((*tokenizer)->Encode(text, true), ids) << text;
    EXPECT_EQ((*tokenizer)->Encode(text, false), example["ids_no_special"]) << text;
    EXPECT_EQ((*tokenizer)->Decode(ids, true), example["decoded"]) << text;
    EXPECT_EQ((*tokenizer)->Decode(ids, false), example["decoded_with_special"]) << text;
  }
}

TEST_P(GoldenTokenizer, TakesBosAndEosFromItsConfiguration) {
  const std::string directory = std::string(HYDRANT_TEST_DATA "/golden/") + GetParam();
  const auto tokenizer = Tokenizer::FromDirectory(directory);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  ASSERT_TRUE((*tokenizer)->bos_id());
  EXPECT_EQ((*tokenizer)->Decode(std::vector{*(*tokenizer)->bos_id()}, false), "<s>");
  ASSERT_EQ((*tokenizer)->eos_ids().size(), 1u);
  EXPECT_EQ((*tokenizer)->TokenText((*tokenizer)->eos_ids()[0]), "</s>");
  EXPECT_EQ((*tokenizer)->vocab_size(), 640);
}

INSTANTIATE_TEST_SUITE_P(Families, GoldenTokenizer,
                         testing::Values("gemma3", "gpt-neox", "llama-gqa", "llama-spm-bf16",
                                         "llama3-rope", "mistral", "opt", "opt-350m-style", "qwen2",
                                         "qwen3"));

class RealVocabulary : public testing::TestWithParam<const char*> {};

TEST_P(RealVocabulary, EqualsHuggingFace) {
  const std::string name = GetParam();
  const auto tokenizer = Vocabulary(name);
  const std::string base = HYDRANT_TEST_DATA "/tokenizers/ggml-vocab-" + name + ".gguf";
  const std::string texts = ReadFile(base + ".inp");
  std::istringstream lines(ReadFile(base + ".out"));
  const std::string separator = "\n__ggml_vocab_test__\n";
  int count = 0;
  for (size_t begin = 0; begin < texts.size(); ++count) {
    const size_t end = std::min(texts.find(separator, begin), texts.size());
    const std::string text = texts.substr(begin, end - begin);
    begin = end + separator.size();
    std::string line;
    ASSERT_TRUE(std::getline(lines, line)) << text;
    std::istringstream numbers(line);
    std::vector<int32_t> expected;
    for (int32_t id; numbers >> id;) expected.push_back(id);
    EXPECT_EQ(tokenizer->Encode(text, false), expected) << text;
    EXPECT_EQ(tokenizer->Decode(expected, false), text);
  }
  EXPECT_GT(count, 40);
}

TEST_P(RealVocabulary, TextSurvivesARoundTrip) {
  const auto tokenizer = Vocabulary(GetParam());
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    std::string text;
    const int size = random() % 40;
    for (int i = 0; i < size; ++i) {
      static const std::string kAlphabet[] = {
          " ",    "  ",     "\n", "\r\n",   "\t",     "a",      "B",  "'ll",
          "'S",   "7",      "42", ".",      "--",     "é",      "ß",  "東",
          "🙂", "\u0301", "क",  "\u00a0", "\u3000", "\u200d", "<|", std::string(1, '\0')};
      text += kAlphabet[random() % std::size(kAlphabet)];
    }
    EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(text, false), false), text);
  }
}

TEST_P(RealVocabulary, AnyBytesAreEncodedAsTheirRepairedText) {
  const auto tokenizer = Vocabulary(GetParam());
  EXPECT_EQ(tokenizer->Encode("a\xff\xe6\x9d z\xc3", false),
            tokenizer->Encode("a\uFFFD\uFFFD z\uFFFD", false));
  std::mt19937 random(2);
  for (int round = 0; round < 300; ++round) {
    std::string bytes(random() % 64, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    const std::vector<int32_t> ids = tokenizer->Encode(bytes, false);
    EXPECT_EQ(tokenizer->Encode(tokenizer->Decode(ids, false), false), ids);
  }
}

TEST_P(RealVocabulary, LongWordsAndRunsAreNoTrouble) {
  const auto tokenizer = Vocabulary(GetParam());
  for (const std::string unit : {"a", "xyzzy", " ", "\n", "9", "東", "'", "é\u0301"}) {
    std::string text;
    while (text.size() < 100'000) text += unit;
    EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(text, false), false), text) << unit;
  }
}

INSTANTIATE_TEST_SUITE_P(Gguf, RealVocabulary, testing::Values("gpt-2", "llama-bpe", "llama-spm"));

TEST(TokenizerTest, SpecialTokensInTheTextAreRecognised) {
  const auto tokenizer = Vocabulary("llama-bpe");
  const std::vector<int32_t> ids =
      tokenizer->Encode("<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>", false);
  ASSERT_EQ(ids.size(), 6u);
  EXPECT_EQ(ids[0], 128006);
  EXPECT_EQ(ids[2], 128007);
  EXPECT_EQ(ids[5], 128009);
  EXPECT_TRUE(tokenizer->IsSpecial(128006));
  EXPECT_FALSE(tokenizer->IsSpecial(ids[1]));
  EXPECT_EQ(tokenizer->Decode(ids, true), "user\n\nHi");
  EXPECT_EQ(tokenizer->Decode(ids, false),
            "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>");
}

TEST(TokenizerTest, Llama3PutsBosBeforeATextAndGpt2Nothing) {
  const auto llama = Vocabulary("llama-bpe");
  EXPECT_EQ(llama->bos_id(), 128000);
  EXPECT_EQ(llama->Encode("", true), std::vector{128000});
  EXPECT_EQ(llama->Encode("", false), std::vector<int32_t>{});
  EXPECT_EQ(llama->vocab_size(), 128256);
  const auto gpt2 = Vocabulary("gpt-2");
  EXPECT_EQ(gpt2->Encode("", true), std::vector<int32_t>{});
  EXPECT_EQ(gpt2->eos_ids(), std::vector{50256});
}

TEST(TokenizerTest, InvalidIdsAreSkipped) {
  const auto tokenizer = Vocabulary("gpt-2");
  EXPECT_EQ(tokenizer->Decode(std::vector{-1, 64, 50257, 65, 1 << 30}, false), "ab");
  EXPECT_EQ(tokenizer->TokenText(-1), "");
  EXPECT_EQ(tokenizer->TokenText(50257), "");
  EXPECT_FALSE(tokenizer->IsSpecial(-1));
  EXPECT_FALSE(tokenizer->IsSpecial(50257));
}

TEST(TokenizerTest, TokenTextKeepsTheSpaceThatDecodeTakesOffTheFront) {
  const auto tokenizer = Tokenizer::FromDirectory(HYDRANT_TEST_DATA "/golden/llama-spm-bf16");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const std::vector<int32_t> ids = (*tokenizer)->Encode("a", false);
  ASSERT_EQ(ids.size(), 2u);
  EXPECT_EQ((*tokenizer)->TokenText(ids[0]), " ");
  EXPECT_EQ((*tokenizer)->Decode(ids, false), "a");
  EXPECT_EQ((*tokenizer)->TokenText(198), "\uFFFD");  // <0xC3>, half a character
}

}  // namespace
}  // namespace hydrant::engine
