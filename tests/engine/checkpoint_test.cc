// Hugging Face directories. (GGUF checkpoints: gguf_checkpoint_test.cc.)

#include "engine/weights/checkpoint.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "engine/tokenizer/tokenizer.h"
#include "tests/engine/temp_dir.h"

namespace hydrant::engine::weights {
namespace {

using nlohmann::json;

const std::string kGolden = std::string(HYDRANT_TEST_DATA) + "/golden/";

constexpr const char* kConfig = R"({"model_type": "llama", "vocab_size": 3, "hidden_size": 4,
    "intermediate_size": 6, "num_hidden_layers": 1, "num_attention_heads": 2,
    "eos_token_id": 2})";

// A safetensors file of F32 tensors; the values count up from `first`, over all of them.
std::string Safetensors(const std::vector<std::pair<std::string, std::vector<int>>>& tensors,
                        float first) {
  json header;
  std::string data;
  for (const auto& [name, shape] : tensors) {
    const size_t begin = data.size();
    int count = 1;
    for (const int dim : shape) count *= dim;
    for (int i = 0; i < count; ++i, ++first) {
      data.append(reinterpret_cast<const char*>(&first), sizeof(first));
    }
    header[name] = {{"dtype", "F32"}, {"shape", shape}, {"data_offsets", {begin, data.size()}}};
  }
  const std::string text = header.dump();
  const uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + text + data;
}

class CheckpointTest : public testing::Test {
 protected:
  CheckpointTest() {
    dir_.Write("config.json", kConfig);
    dir_.Write("model.safetensors",
               Safetensors({{"lm_head.weight", {3, 4}}, {"model.norm.weight", {4}}}, 0));
  }

  absl::StatusOr<std::unique_ptr<Checkpoint>> Open() { return Checkpoint::Open(dir_.path()); }

  void ExpectRefused(const std::string& reason) {
    const auto checkpoint = Open();
    ASSERT_FALSE(checkpoint.ok()) << "expected: " << reason;
    const std::string message(checkpoint.status().message());
    EXPECT_NE(message.find(dir_.path()), std::string::npos) << message;
    EXPECT_NE(message.find(reason), std::string::npos) << message;
  }

  TempDir dir_;
};

TEST(GoldenCheckpointTest, Configs) {
  const auto gqa = Checkpoint::Open(kGolden + "llama-gqa");
  ASSERT_TRUE(gqa.ok()) << gqa.status();
  EXPECT_EQ((*gqa)->format(), "safetensors");
  EXPECT_EQ((*gqa)->config().vocab_size, 640);
  EXPECT_EQ((*gqa)->config().hidden_size, 64);
  EXPECT_EQ((*gqa)->config().intermediate_size, 160);
  EXPECT_EQ((*gqa)->config().num_hidden_layers, 3);
  EXPECT_EQ((*gqa)->config().num_attention_heads, 4);
  EXPECT_EQ((*gqa)->config().num_key_value_heads, 2);
  EXPECT_EQ((*gqa)->config().head_dim, 16);
  EXPECT_EQ((*gqa)->config().max_position_embeddings, 512);
  EXPECT_EQ((*gqa)->config().norm_eps, 1e-6);
  EXPECT_TRUE((*gqa)->config().tie_word_embeddings);
  EXPECT_FALSE((*gqa)->Has("lm_head.weight"));
  EXPECT_EQ((*gqa)->generation_config().eos_token_ids, std::vector<int32_t>{2});
  EXPECT_EQ(*(*gqa)->chat_template(), ReadAll(kGolden + "llama-gqa/chat_template.jinja"));

  const auto bf16 = Checkpoint::Open(kGolden + "llama-spm-bf16");
  ASSERT_TRUE(bf16.ok()) << bf16.status();
  EXPECT_EQ((*bf16)->config().num_key_value_heads, 4);
  EXPECT_FALSE((*bf16)->config().tie_word_embeddings);
  const auto head = (*bf16)->Tensor("lm_head.weight", 640, 64);
  ASSERT_TRUE(head.ok()) << head.status();
  EXPECT_EQ(head->type, "BF16");

  const auto llama3 = Checkpoint::Open(kGolden + "llama3-rope");
  ASSERT_TRUE(llama3.ok()) << llama3.status();
  const RopeConfig& rope = (*llama3)->config().rope;
  EXPECT_EQ(rope.scaling, RopeScaling::kLlama3);
  EXPECT_EQ(rope.factor, 8.0);
  EXPECT_EQ(rope.low_freq_factor, 1.0);
  EXPECT_EQ(rope.high_freq_factor, 4.0);
  EXPECT_EQ(rope.original_max_position_embeddings, 128);
}

TEST(GoldenCheckpointTest, CountsAndReadsEveryParameter) {
  const auto checkpoint = Checkpoint::Open(kGolden + "llama-gqa");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const int64_t layer = 2 * 64 * 64 + 2 * 32 * 64 + 3 * 160 * 64 + 2 * 64;
  EXPECT_EQ((*checkpoint)->num_parameters(), 640 * 64 + 3 * layer + 64);
  int64_t values = 0;
  for (int pass = 0; pass < 2; ++pass) {
    for (const TensorView& tensor : (*checkpoint)->Tensors()) {
      std::vector<float> row(static_cast<size_t>(tensor.cols));
      for (int64_t r = 0; r < tensor.rows; ++r) {
        tensor.read_row(r, row.data());
        for (const float value : row) ASSERT_TRUE(std::isfinite(value)) << tensor.name;
        values += tensor.cols;
      }
    }
    (*checkpoint)->DropPages();  // what is read later comes back
  }
  EXPECT_EQ(values, 2 * (*checkpoint)->num_parameters());
}

TEST(GoldenCheckpointTest, BringsItsTokenizer) {
  const auto checkpoint = Checkpoint::Open(kGolden + "llama-gqa");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const auto tokenizer = (*checkpoint)->LoadTokenizer();
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->Decode((*tokenizer)->Encode("Hello", false), true), "Hello");
}

TEST_F(CheckpointTest, TensorsAreFoundByNameAndShape) {
  const auto checkpoint = Open();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_TRUE((*checkpoint)->Has("model.norm.weight"));
  const auto head = (*checkpoint)->Tensor("lm_head.weight", 3, 4);
  ASSERT_TRUE(head.ok()) << head.status();
  std::vector<float> row(4);
  head->read_row(2, row.data());
  EXPECT_EQ(row, (std::vector<float>{8, 9, 10, 11}));
  const auto norm = (*checkpoint)->Tensor("model.norm.weight", 1, 4);
  ASSERT_TRUE(norm.ok()) << norm.status();
  norm->read_row(0, row.data());
  EXPECT_EQ(row, (std::vector<float>{12, 13, 14, 15}));

  const absl::Status missing = (*checkpoint)->Tensor("none", 3, 4).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(std::string(missing.message()).find("'none' is missing"), std::string::npos);
  const absl::Status shape = (*checkpoint)->Tensor("lm_head.weight", 4, 3).status();
  EXPECT_EQ(shape.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(shape.message()).find("is [3, 4]; the model needs [4, 3]"),
            std::string::npos);
}

TEST_F(CheckpointTest, IntegerBuffersAreNoWeights) {
  const std::string header = R"({"mask":{"dtype":"BOOL","shape":[4],"data_offsets":[0,4]},)"
                             R"("w":{"dtype":"F16","shape":[2],"data_offsets":[4,8]}})";
  const uint64_t length = header.size();
  dir_.Write("model.safetensors",
             std::string(reinterpret_cast<const char*>(&length), 8) + header + "12345678");
  const auto checkpoint = Open();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ((*checkpoint)->Tensors().size(), 1u);
  EXPECT_EQ((*checkpoint)->num_parameters(), 2);
  const absl::Status status = (*checkpoint)->Tensor("mask", 1, 4).status();
  EXPECT_NE(std::string(status.message()).find("'mask' is of type BOOL"), std::string::npos);
}

TEST_F(CheckpointTest, FloatsOfOtherTypesAreRefused) {
  const std::string header = R"({"w":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]}})";
  const uint64_t length = header.size();
  dir_.Write("model.safetensors",
             std::string(reinterpret_cast<const char*>(&length), 8) + header + "1234");
  ExpectRefused("tensor 'w' is of type F8_E4M3");
}

TEST_F(CheckpointTest, Shards) {
  std::filesystem::remove(dir_.path() + "/model.safetensors");
  ExpectRefused("neither model.safetensors nor model.safetensors.index.json");
  dir_.Write("model-1.safetensors", Safetensors({{"a", {2, 2}}}, 0));
  dir_.Write("model-2.safetensors", Safetensors({{"b", {2}}, {"c", {1}}}, 100));
  const auto index = [&](const json& map) {
    dir_.Write("model.safetensors.index.json", json({{"weight_map", map}}).dump());
  };
  index({{"a", "model-1.safetensors"}, {"b", "model-2.safetensors"}, {"c", "model-2.safetensors"}});
  const auto checkpoint = Open();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ((*checkpoint)->num_parameters(), 7);
  std::vector<float> row(2);
  (*checkpoint)->Tensor("b", 1, 2)->read_row(0, row.data());
  EXPECT_EQ(row, (std::vector<float>{100, 101}));

  index({{"a", "model-1.safetensors"}, {"d", "model-2.safetensors"}});
  ExpectRefused("places 'd' in 'model-2.safetensors', which does not have it");
  index({{"a", "model-3.safetensors"}});
  ExpectRefused("model-3.safetensors: cannot open");
  dir_.Write("model-3.safetensors", Safetensors({{"a", {1}}}, 0));
  index({{"a", "model-1.safetensors"}, {"b", "model-3.safetensors"}});
  ExpectRefused("'a' appears twice");
  for (const char* name :
       {"../model.safetensors", "/etc/x.safetensors", "a/b.safetensors", "config.json", ""}) {
    index({{"a", name}});
    ExpectRefused("places 'a' in");
  }
  index({{"a", 7}});
  ExpectRefused("places 'a' in");
  index(json::object());
  ExpectRefused("weight_map is missing or empty");
}

TEST_F(CheckpointTest, StopTokens) {
  EXPECT_EQ((*Open())->generation_config().eos_token_ids, std::vector<int32_t>{2});
  dir_.Write("generation_config.json", R"({"temperature": 0.5})");
  EXPECT_EQ((*Open())->generation_config().eos_token_ids, std::vector<int32_t>{2});
  EXPECT_EQ((*Open())->generation_config().temperature, 0.5f);
  dir_.Write("generation_config.json", R"({"eos_token_id": [0, 1]})");
  EXPECT_EQ((*Open())->generation_config().eos_token_ids, (std::vector<int32_t>{0, 1}));
  dir_.Write("generation_config.json", "[");
  ExpectRefused("generation_config.json: not valid JSON");
}

TEST_F(CheckpointTest, ChatTemplates) {
  const auto templates = [&] { return (*Open())->chat_templates(); };
  EXPECT_EQ((*Open())->chat_template(), nullptr);
  dir_.Write("tokenizer_config.json", R"({"chat_template": "one"})");
  EXPECT_EQ(*(*Open())->chat_template(), "one");
  dir_.Write("tokenizer_config.json", R"({"chat_template": [
      {"name": "tool_use", "template": "two"}, {"name": "default", "template": "three"}]})");
  EXPECT_EQ(templates(), (ChatTemplates{{"default", "three"}, {"tool_use", "two"}}));
  dir_.Write("tokenizer_config.json",
             R"({"chat_template": [{"name": "tool_use", "template": "two"}]})");
  EXPECT_EQ((*Open())->chat_template(), nullptr);
  EXPECT_EQ(templates(), (ChatTemplates{{"tool_use", "two"}}));
  dir_.Write("tokenizer_config.json", R"({"chat_template": 3})");
  ExpectRefused("chat_template is neither");
  dir_.Write("tokenizer_config.json", R"({"chat_template": ["x"]})");
  ExpectRefused("chat_template: expected a JSON object");
  dir_.Write("chat_template.jinja", "four");
  dir_.Write("additional_chat_templates/rag.jinja", "five");
  EXPECT_EQ(templates(), (ChatTemplates{{"default", "four"}, {"rag", "five"}}));
}

TEST_F(CheckpointTest, PathsThatAreNoCheckpoint) {
  EXPECT_EQ(Checkpoint::Open(dir_.path() + "/none").status().code(), absl::StatusCode::kNotFound);
  const auto file = Checkpoint::Open(dir_.path() + "/model.safetensors");
  EXPECT_NE(std::string(file.status().message()).find("give the directory"), std::string::npos);
  const auto text = Checkpoint::Open(dir_.Write("notes.txt", "hello, world"));
  EXPECT_NE(std::string(text.status().message()).find("no GGUF magic"), std::string::npos);
  std::filesystem::remove(dir_.path() + "/config.json");
  ExpectRefused("no config.json");
}

}  // namespace
}  // namespace hydrant::engine::weights
