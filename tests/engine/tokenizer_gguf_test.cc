// What Tokenizer::FromGguf makes of a vocabulary's metadata, well-formed or not.

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "engine/tokenizer/tokenizer.h"
#include "engine/weights/gguf.h"
#include "tests/engine/gguf_writer.h"
#include "tests/engine/temp_dir.h"

namespace hydrant::engine {
namespace {

using weights::Bytes;
using weights::GgufString;
using weights::GgufWriter;

constexpr uint32_t kBool = 7, kI32 = 5, kF32 = 6, kString = 8;

// The keys of a small vocabulary; a test changes one of them before it is written.
struct Metadata {
  std::string model = "gpt2", pre = "gpt-2";
  std::vector<std::string> tokens = {"a", "b", "ab", "Ġ", "<s>", "<eot>", "[user]"};
  std::vector<int32_t> types = {1, 1, 1, 1, 3, 3, 4};
  std::vector<std::string> merges = {"a b"};
  uint32_t bos = 4, eos = 5;
  std::function<void(GgufWriter&)> more = [](GgufWriter&) {};

  absl::StatusOr<std::unique_ptr<Tokenizer>> Load() const {
    GgufWriter writer;
    writer.String("general.architecture", "llama");
    if (!model.empty()) writer.String("tokenizer.ggml.model", model);
    if (!pre.empty()) writer.String("tokenizer.ggml.pre", pre);
    Strings(writer, "tokenizer.ggml.tokens", tokens);
    Strings(writer, "tokenizer.ggml.merges", merges);
    std::string numbers;
    for (const int32_t type : types) numbers += Bytes(type);
    writer.Array("tokenizer.ggml.token_type", kI32, types.size(), numbers);
    writer.U32("tokenizer.ggml.bos_token_id", bos);
    writer.U32("tokenizer.ggml.eos_token_id", eos);
    more(writer);
    const TempDir directory;
    const auto file = weights::GgufFile::Open(directory.Write("vocab.gguf", writer.Build()));
    if (!file.ok()) return file.status();
    return Tokenizer::FromGguf(**file);
  }

  static void Strings(GgufWriter& writer, const std::string& key,
                      const std::vector<std::string>& strings) {
    std::string payload;
    for (const std::string& text : strings) payload += GgufString(text);
    writer.Array(key, kString, strings.size(), payload);
  }
};

TEST(TokenizerGgufTest, OutlivesTheFileAndKnowsItsTokens) {
  Metadata metadata;
  metadata.more = [](GgufWriter& writer) {
    writer.Key("tokenizer.ggml.add_bos_token", kBool, Bytes<uint8_t>(1));
    writer.Key("tokenizer.ggml.add_eos_token", kBool, Bytes<uint8_t>(1));
    writer.U32("tokenizer.ggml.eot_token_id", 6);
  };
  const auto tokenizer = metadata.Load();
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->Encode("ab a<eot>[user]", true), (std::vector{4, 2, 3, 0, 5, 6, 5}));
  EXPECT_EQ((*tokenizer)->Encode("ba", false), (std::vector{1, 0}));
  EXPECT_EQ((*tokenizer)->bos_id(), 4);
  EXPECT_EQ((*tokenizer)->eos_ids(), (std::vector{5, 6}));
  EXPECT_TRUE((*tokenizer)->IsSpecial(5));
  EXPECT_FALSE((*tokenizer)->IsSpecial(6));
  EXPECT_EQ((*tokenizer)->Decode(std::vector{4, 2, 3, 6, 5}, true), "ab [user]");
}

TEST(TokenizerGgufTest, AddsBosOnlyWhereTheKindOfPreTokenizerOrTheFileAsksForIt) {
  Metadata metadata;
  EXPECT_EQ((*metadata.Load())->Encode("a", true), std::vector{0});
  metadata.pre = "llama-bpe";
  EXPECT_EQ((*metadata.Load())->Encode("a", true), (std::vector{4, 0}));
  metadata.more = [](GgufWriter& writer) {
    writer.Key("tokenizer.ggml.add_bos_token", kBool, Bytes<uint8_t>(0));
  };
  EXPECT_EQ((*metadata.Load())->Encode("a", true), std::vector{0});
}

TEST(TokenizerGgufTest, TokensOfBrokenUtf8DoNoHarm) {
  Metadata metadata;
  metadata.tokens[6] = "\xc3";
  metadata.tokens[2] = "\xff\xfe";
  metadata.merges.clear();
  const auto tokenizer = metadata.Load();
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->Encode("aé\xc3", false), std::vector{0});
  EXPECT_EQ((*tokenizer)->Decode(std::vector{0, 6, 2}, false), "a\uFFFD\uFFFD\uFFFD");
}

TEST(TokenizerGgufTest, EveryNameOfAPreTokenizerCuts) {
  Metadata metadata;
  for (const std::string name : {"",
                                 "default",
                                 "gpt-2",
                                 "phi-2",
                                 "opt",
                                 "gpt-neox",
                                 "mpt",
                                 "olmo",
                                 "smollm",
                                 "starcoder",
                                 "refact",
                                 "command-r",
                                 "falcon",
                                 "llama-bpe",
                                 "llama-v3",
                                 "llama3",
                                 "falcon3",
                                 "pixtral",
                                 "dbrx",
                                 "smaug-bpe",
                                 "qwen2",
                                 "qwen35",
                                 "stablelm2",
                                 "deepseek-llm",
                                 "deepseek-coder",
                                 "deepseek-v3",
                                 "bloom",
                                 "poro-chat",
                                 "viking",
                                 "tekken",
                                 "gpt-4o",
                                 "llama4",
                                 "bailingmoe",
                                 "seed-coder",
                                 "chatglm-bpe",
                                 "glm4",
                                 "exaone",
                                 "codeshell",
                                 "minerva-7b",
                                 "deepseek-r1-qwen",
                                 "hunyuan",
                                 "megrez"}) {
    metadata.pre = name;
    const auto tokenizer = metadata.Load();
    ASSERT_TRUE(tokenizer.ok()) << name << tokenizer.status();
    EXPECT_EQ((*tokenizer)->Encode("ab ab<eot>", false), (std::vector{2, 3, 2, 5})) << name;
  }
  // Where three digits in a row are cut tells most of them apart.
  metadata.tokens = {"1", "11", "111", "1111", "<s>", "<eot>"};
  metadata.types = {1, 1, 1, 1, 3, 3};
  metadata.merges = {"1 1", "11 1", "111 1"};
  for (const auto& [name, ids] : std::vector<std::pair<std::string, std::vector<int32_t>>>{
           {"gpt-2", {1, 1}},
           {"llama3", {2, 0}},
           {"qwen2", {0, 0, 0, 0}},
           {"falcon", {2, 0}},
           {"deepseek-v3", {2, 0}},
           {"smollm", {0, 0, 0, 0}},
           {"bloom", {1, 1}},
           {"viking", {0, 0, 0, 0}},
           {"deepseek-coder", {0, 0, 0, 0}}}) {
    metadata.pre = name;
    EXPECT_EQ((*metadata.Load())->Encode("1111", false), ids) << name;
  }
}

TEST(TokenizerGgufTest, NormalisesWhereTheVocabularysOriginDoes) {
  Metadata metadata;
  metadata.tokens[6] = "Ã©";  // the two bytes of é
  metadata.tokens[0] = "Ã", metadata.tokens[1] = "©";
  metadata.tokens[2] = "e";
  metadata.types[6] = 1;
  metadata.merges = {"Ã ©"};
  metadata.pre = "qwen2";
  EXPECT_EQ((*metadata.Load())->Encode("e\u0301", false), std::vector{6});
  metadata.pre = "gpt-2";
  EXPECT_EQ((*metadata.Load())->Encode("e\u0301", false), std::vector{2});
}

// SentencePiece's models: scores instead of merges.
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadScored(
    const std::string& model, const std::vector<std::pair<std::string, float>>& tokens,
    const std::function<void(GgufWriter&)>& more = [](GgufWriter&) {}) {
  Metadata metadata;
  metadata.model = model;
  metadata.pre = "";
  metadata.merges.clear();
  metadata.tokens.clear();
  metadata.types.clear();
  std::string scores;
  for (const auto& [token, score] : tokens) {
    metadata.tokens.push_back(token);
    metadata.types.push_back(token == "<unk>" ? 2 : token.starts_with("<0x") ? 6 : 1);
    scores += Bytes(score);
  }
  metadata.bos = 0;
  metadata.eos = 0;
  metadata.more = [&](GgufWriter& writer) {
    writer.Array("tokenizer.ggml.scores", kF32, tokens.size(), scores);
    writer.U32("tokenizer.ggml.unknown_token_id", 0);
    writer.Key("tokenizer.ggml.add_bos_token", kBool, Bytes<uint8_t>(0));
    more(writer);
  };
  return metadata.Load();
}

TEST(TokenizerGgufTest, ScoresStandForMerges) {
  const std::vector<std::pair<std::string, float>> tokens = {
      {"<unk>", 0}, {"<0x41>", 0}, {"\u2581", -9}, {"a", -9},
      {"b", -9},    {"ab", -2},    {"bb", -1},     {"\u2581a", -3}};
  const auto tokenizer = LoadScored("llama", tokens);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->Encode("abb", false), (std::vector{7, 6}));
  EXPECT_EQ((*tokenizer)->Encode("b ab", false), (std::vector{2, 4, 2, 5}));
  EXPECT_EQ((*tokenizer)->Encode("Aé", false), (std::vector{2, 1, 0}));
  EXPECT_EQ((*tokenizer)->Decode(std::vector{7, 6, 2, 1}, true), "abb A");
  const auto bare = LoadScored("llama", tokens, [](GgufWriter& writer) {
    writer.Key("tokenizer.ggml.add_space_prefix", kBool, Bytes<uint8_t>(0));
  });
  ASSERT_TRUE(bare.ok()) << bare.status();
  EXPECT_EQ((*bare)->Encode("abb", false), (std::vector{3, 6}));
  EXPECT_EQ((*bare)->Decode(std::vector{7, 6}, true), " abb");
}

TEST(TokenizerGgufTest, UnigramTakesTheBestSum) {
  const auto tokenizer = LoadScored("t5", {{"<unk>", 0},
                                           {"\u2581", -2},
                                           {"a", -3},
                                           {"b", -3},
                                           {"ab", -5.5},
                                           {"\u2581a", -4},
                                           {"\u2581ab", -8}});
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->Encode("ab  a xy", false), (std::vector{5, 3, 5, 1, 0}));
  EXPECT_EQ((*tokenizer)->Decode(std::vector{5, 3, 1, 2}, true), "ab a");
  EXPECT_EQ((*tokenizer)->named_tokens()[2].second, "<unk>");
}

struct Bad {
  std::function<void(Metadata&)> change;
  absl::StatusCode code;
  const char* named;  // in the message
};

TEST(TokenizerGgufTest, WhatIsWrongIsNamed) {
  constexpr auto kUnknown = absl::StatusCode::kUnimplemented;
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  const Bad all[] = {
      {[](Metadata& m) { m.model = "rwkv"; }, kUnknown, "tokenizer.ggml.model 'rwkv'"},
      {[](Metadata& m) { m.model = "llama"; }, kInvalid, "tokenizer.ggml.scores: is missing"},
      {[](Metadata& m) { m.model = ""; }, kInvalid, "tokenizer.ggml.model: is missing"},
      {[](Metadata& m) { m.pre = "tomorrow"; }, kUnknown, "tokenizer.ggml.pre 'tomorrow'"},
      {[](Metadata& m) { m.types.pop_back(); }, kInvalid, "has 6 elements for 7 tokens"},
      {[](Metadata& m) { m.merges = {"ab"}; }, kInvalid, "tokenizer.ggml.merges: element 0"},
      {[](Metadata& m) { m.merges = {""}; }, kInvalid, "tokenizer.ggml.merges: element 0"},
      {[](Metadata& m) { m.merges = {"b a"}; }, kInvalid, "'ba' is not in the vocabulary"},
      {[](Metadata& m) { m.bos = 7; }, kInvalid, "tokenizer.ggml.bos_token_id: 7"},
      {[](Metadata& m) { m.eos = 0xFFFFFFFF; }, kInvalid, "tokenizer.ggml.eos_token_id"},
      {[](Metadata& m) { m.tokens.clear(); }, kInvalid, "tokenizer.ggml.token_type"},
  };
  for (const Bad& bad : all) {
    Metadata metadata;
    bad.change(metadata);
    const absl::Status status = metadata.Load().status();
    EXPECT_EQ(status.code(), bad.code) << status;
    EXPECT_NE(status.message().find(bad.named), absl::string_view::npos) << status;
    EXPECT_NE(status.message().find("vocab.gguf"), absl::string_view::npos) << status;
  }
}

}  // namespace
}  // namespace hydrant::engine
