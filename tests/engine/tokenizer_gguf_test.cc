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

constexpr uint32_t kBool = 7, kI32 = 5, kString = 8;

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

struct Bad {
  std::function<void(Metadata&)> change;
  absl::StatusCode code;
  const char* named;  // in the message
};

TEST(TokenizerGgufTest, WhatIsWrongIsNamed) {
  constexpr auto kUnknown = absl::StatusCode::kUnimplemented;
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  const Bad all[] = {
      {[](Metadata& m) { m.model = "llama"; }, kUnknown, "tokenizer.ggml.model 'llama'"},
      {[](Metadata& m) { m.model = ""; }, kInvalid, "tokenizer.ggml.model: is missing"},
      {[](Metadata& m) { m.pre = "tomorrow"; }, kUnknown, "tokenizer.ggml.pre 'tomorrow'"},
      {[](Metadata& m) { m.pre = ""; }, kInvalid, "tokenizer.ggml.pre: is missing"},
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
