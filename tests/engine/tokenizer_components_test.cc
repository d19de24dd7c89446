// Every component of tokenizer.json in many combinations, against ids and texts that Hugging Face's
// library (tokenizers 0.23) gave for the same file: tests/data/tokenizer_components.json. And what
// malformed files and unknown components are told.

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/tokenizer/tokenizer.h"
#include "tests/engine/temp_dir.h"

namespace hydrant::engine {
namespace {

using nlohmann::json;

json ReadJson(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  return json::parse(file);
}

class TokenizerComponents : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<Tokenizer>> Load(const std::string& text) {
    directory_.Write("tokenizer.json", text);
    return Tokenizer::FromDirectory(directory_.path());
  }

  const TempDir directory_;
};

// Ids of a text, and the text of ids, whole and token by token ("decoded" null: not asked).
void ExpectEqual(const Tokenizer& tokenizer, const json& example) {
  EXPECT_EQ(tokenizer.Encode(example["text"].get<std::string>(), example["special"]),
            example["ids"].get<std::vector<int32_t>>())
      << example["text"];
  if (example["decoded"].is_null()) return;
  const auto ids = example["decode"].get<std::vector<int32_t>>();
  EXPECT_EQ(tokenizer.Decode(ids, example["skip"]), example["decoded"]) << example["decode"];
  IncrementalDetokenizer detokenizer(tokenizer, example["skip"]);
  std::string text;
  for (const int32_t id : ids) text += detokenizer.Add(id);
  EXPECT_EQ(text + detokenizer.Flush(), example["decoded"]) << example["decode"];
}

json Base(const std::string& name) {
  return ReadJson(HYDRANT_TEST_DATA "/golden/" + name + "/tokenizer.json");
}

TEST_F(TokenizerComponents, EqualHuggingFace) {
  const json variants = ReadJson(HYDRANT_TEST_DATA "/tokenizer_components.json");
  ASSERT_GT(variants.size(), 60u);
  for (const json& variant : variants) {
    SCOPED_TRACE(variant["name"]);
    json file = Base(variant["base"]);
    for (const auto& [key, value] : variant["patch"].items()) file[key] = value;
    for (const auto& [key, value] : variant["model"].items()) file["model"][key] = value;
    for (const json& token : variant["remove_tokens"]) {
      file["model"]["vocab"].erase(token.get<std::string>());
    }
    const auto tokenizer = Load(file.dump());
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    for (const json& example : variant["cases"]) {
      ExpectEqual(**tokenizer, example);
    }
  }
}

// tests/data/tokenizers/make_small.py put these together at random.
TEST_F(TokenizerComponents, RandomCombinationsEqualHuggingFace) {
  const json files = ReadJson(HYDRANT_TEST_DATA "/tokenizers/small.json");
  ASSERT_GE(files.size(), 50u);
  for (size_t i = 0; i < files.size(); ++i) {
    SCOPED_TRACE(std::to_string(i) + " " + files[i]["name"].get<std::string>());
    const auto tokenizer = Load(files[i]["file"].dump());
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    for (const json& example : files[i]["cases"]) {
      ExpectEqual(**tokenizer, example);
    }
  }
}

struct BadFile {
  const char* patch;  // JSON merge patch of llama-gqa's tokenizer.json
  absl::StatusCode code;
  const char* named;  // in the message
};

TEST_F(TokenizerComponents, UnknownAndMalformedOnesAreNamed) {
  constexpr auto kUnknown = absl::StatusCode::kUnimplemented;
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  const BadFile kFiles[] = {
      {R"({"model": {"type": "Bigram"}})", kUnknown, "model: model Bigram is not supported"},
      {R"({"model": {"type": "Unigram"}})", kInvalid, "model.vocab: not an array"},
      {R"({"model": {"dropout": 0.1}})", kUnknown, "BPE with dropout"},
      {R"({"model": {"end_of_word_suffix": 1}})", kInvalid, "end_of_word_suffix: not a string"},
      {R"({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAA"}})", kInvalid,
       "normalizer.precompiled_charsmap"},
      {R"({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "/////w=="}})", kInvalid,
       "does not fit"},
      {R"({"model": {"vocab": null}})", kInvalid, "model: has no \"vocab\""},
      {R"({"model": {"vocab": {"x": -1}}})", kInvalid, "model.vocab: the id -1 of token 'x'"},
      {R"({"model": {"vocab": {"x": 2000000000}}})", kInvalid, "2000000000"},
      {R"({"model": {"vocab": {"x": "y"}}})", kInvalid, "model.vocab.x: not an integer"},
      {R"({"model": {"merges": ["ab"]}})", kInvalid, "model.merges[0]"},
      {R"({"model": {"merges": [["a", "b", "c"]]}})", kInvalid, "model.merges[0]"},
      {R"({"model": {"merges": ["a nope"]}})", kInvalid, "'nope' is not in the vocabulary"},
      {R"({"model": {"fuse_unk": 1}})", kInvalid, "model.fuse_unk: not a boolean"},
      {R"({"normalizer": {"type": "NFKD2"}})", kUnknown, "normalizer: normalizer NFKD2"},
      {R"({"normalizer": {}})", kInvalid, "normalizer: has no \"type\""},
      {R"({"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Odd"}]}})", kUnknown,
       "pre_tokenizer.pretokenizers[0]: pre-tokenizer Odd"},
      {R"({"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(a"}, "behavior": "Removed"}})",
       kInvalid, "pre_tokenizer.pattern: regular expression '(a'"},
      {R"({"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(?~a)."},
           "behavior": "Removed"}})",
       kUnknown, "an absent operator"},
      {R"({"pre_tokenizer": {"type": "Split", "pattern": {"String": "a"}, "behavior": "Odd"}})",
       kUnknown, "behavior \"Odd\""},
      {R"({"decoder": {"type": "Odd"}})", kUnknown, "decoder: decoder Odd"},
      {R"({"decoder": {"type": "Strip", "content": "ab", "start": 1, "stop": 0}})", kInvalid,
       "decoder.content: not one character"},
      {R"({"post_processor": {"type": "Odd"}})", kUnknown, "post_processor: post-processor Odd"},
      {R"({"post_processor": {"type": "TemplateProcessing", "single": [],
           "special_tokens": {}}})",
       kUnknown, "a template without the text"},
      {R"({"added_tokens": [{"id": -4, "content": "x"}]})", kInvalid, "added_tokens[0]"},
      {R"({"added_tokens": {}})", kInvalid, "added_tokens: not an array"},
  };
  for (const BadFile& bad : kFiles) {
    json file = Base("llama-gqa");
    file.merge_patch(json::parse(bad.patch));
    const absl::Status status = Load(file.dump()).status();
    EXPECT_EQ(status.code(), bad.code) << bad.patch << status;
    EXPECT_NE(status.message().find(bad.named), absl::string_view::npos) << bad.patch << status;
    EXPECT_NE(status.message().find("tokenizer.json"), absl::string_view::npos) << status;
  }
}

TEST_F(TokenizerComponents, FilesThatAreNoJsonAreErrors) {
  EXPECT_EQ(Tokenizer::FromDirectory(directory_.path()).status().code(),
            absl::StatusCode::kNotFound);
  for (const std::string text : {"", "{", "[]", "null", "{\"model\": 3}", "{\"a\": \"\xff\"}"}) {
    EXPECT_EQ(Load(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
  const std::string whole = Base("llama-gqa").dump();
  for (size_t size = 0; size < whole.size(); size += 997) {
    EXPECT_FALSE(Load(whole.substr(0, size)).ok()) << size;
  }
}

}  // namespace
}  // namespace hydrant::engine
