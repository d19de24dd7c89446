#include "engine/weights/hf_config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace hydrant::engine::weights {
namespace {

using nlohmann::json;

// The least that a config.json of today and of earlier years holds.
json Minimal() {
  return json::parse(R"({"model_type": "llama", "vocab_size": 1000, "hidden_size": 64,
                         "intermediate_size": 96, "num_hidden_layers": 2,
                         "num_attention_heads": 4})");
}

absl::StatusOr<ModelConfig> Read(const json& config) {
  return ReadHfConfig("dir/config.json", config);
}

absl::StatusOr<ModelConfig> ReadWith(const char* patch) {
  json config = Minimal();
  config.merge_patch(json::parse(patch));
  return Read(config);
}

// A null in `patch` removes the field.
void ExpectRefused(const char* patch, const std::string& reason,
                   absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
  const auto config = ReadWith(patch);
  ASSERT_FALSE(config.ok()) << patch;
  EXPECT_EQ(config.status().code(), code) << config.status();
  const std::string message(config.status().message());
  EXPECT_EQ(message.rfind("dir/config.json", 0), 0u) << message;
  EXPECT_NE(message.find(reason), std::string::npos) << message;
}

TEST(HfConfigTest, DefaultsAreThoseOfTransformers) {
  const auto config = Read(Minimal());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->model_type, "llama");
  EXPECT_EQ(config->num_key_value_heads, 4);
  EXPECT_EQ(config->head_dim, 16);
  EXPECT_EQ(config->max_position_embeddings, 2048);
  EXPECT_EQ(config->norm_eps, 1e-6);
  EXPECT_EQ(config->rope.theta, 10000.0);
  EXPECT_EQ(config->rope.scaling, RopeScaling::kNone);
  EXPECT_EQ(config->hidden_act, "silu");
  EXPECT_FALSE(config->tie_word_embeddings);
  EXPECT_FALSE(config->attention_bias);
  EXPECT_FALSE(config->mlp_bias);
}

TEST(HfConfigTest, NullsCountAsAbsent) {
  json raw = Minimal();
  for (const char* key : {"head_dim", "num_key_value_heads", "rope_scaling", "attention_bias"}) {
    raw[key] = nullptr;
  }
  const auto config = Read(raw);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->head_dim, 16);
  EXPECT_EQ(config->num_key_value_heads, 4);
}

TEST(HfConfigTest, WhatIsGivenIsTaken) {
  const auto config = ReadWith(
      R"({"num_key_value_heads": 1, "head_dim": 24, "max_position_embeddings": 8192.0,
          "rms_norm_eps": 1e-05, "tie_word_embeddings": true, "attention_bias": true,
          "mlp_bias": true, "hidden_act": "gelu_new", "rope_theta": 500000})");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->num_key_value_heads, 1);
  EXPECT_EQ(config->head_dim, 24);
  EXPECT_EQ(config->max_position_embeddings, 8192);
  EXPECT_EQ(config->norm_eps, 1e-5);
  EXPECT_TRUE(config->tie_word_embeddings);
  EXPECT_TRUE(config->attention_bias);
  EXPECT_TRUE(config->mlp_bias);
  EXPECT_EQ(config->hidden_act, "gelu_new");
  EXPECT_EQ(config->rope.theta, 500000.0);
}

TEST(HfConfigTest, RopeInTheOlderAndTheNewerStyle) {
  const char* llama3_old = R"({"rope_theta": 500000.0, "rope_scaling": {
      "rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
      "original_max_position_embeddings": 8192}})";
  const char* llama3_new = R"({"rope_parameters": {"rope_theta": 500000.0,
      "rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
      "original_max_position_embeddings": 8192}})";
  for (const char* patch : {llama3_old, llama3_new}) {
    const auto config = ReadWith(patch);
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->rope.theta, 500000.0);
    EXPECT_EQ(config->rope.scaling, RopeScaling::kLlama3);
    EXPECT_EQ(config->rope.factor, 32.0);
    EXPECT_EQ(config->rope.low_freq_factor, 1.0);
    EXPECT_EQ(config->rope.high_freq_factor, 4.0);
    EXPECT_EQ(config->rope.original_max_position_embeddings, 8192);
  }
  for (const char* patch : {R"({"rope_scaling": {"type": "linear", "factor": 4}})",
                            R"({"rope_scaling": {"rope_type": "linear", "factor": 4.0}})",
                            R"({"rope_parameters": {"rope_type": "linear", "factor": 4.0}})"}) {
    const auto config = ReadWith(patch);
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->rope.theta, 10000.0);
    EXPECT_EQ(config->rope.scaling, RopeScaling::kLinear);
    EXPECT_EQ(config->rope.factor, 4.0);
  }
  const auto plain =
      ReadWith(R"({"rope_parameters": {"rope_type": "default", "rope_theta": 7e4}})");
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(plain->rope.scaling, RopeScaling::kNone);
  EXPECT_EQ(plain->rope.theta, 7e4);
}

TEST(HfConfigTest, TextModelsInsideOfOthersAreRead) {
  json nested = json::parse(R"({"model_type": "gemma3", "vision_config": {"hidden_size": 8},
      "text_config": {"model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240,
                      "num_hidden_layers": 34, "sliding_window": 1024,
                      "rope_scaling": {"rope_type": "linear", "factor": 8.0}}})");
  const auto config = Read(nested);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->model_type, "gemma3_text");
  EXPECT_EQ(config->vocab_size, 262208);
  EXPECT_EQ(config->num_attention_heads, 8);
  EXPECT_EQ(config->num_key_value_heads, 4);
  EXPECT_EQ(config->head_dim, 256);
  EXPECT_EQ(config->rope.factor, 8.0);
  EXPECT_EQ(config->sliding_rope->factor, 1.0);
  EXPECT_EQ(config->window(4), 1024);
  EXPECT_EQ(config->window(5), 0);
  const auto refused = [&](const std::string& reason) {
    const std::string message(Read(nested).status().message());
    EXPECT_NE(message.find(reason), std::string::npos) << message;
  };
  nested["text_config"]["hidden_size"] = 0;
  refused("dir/config.json: text_config: hidden_size is 0");
  nested["text_config"]["model_type"] = "llama";
  refused("dir/config.json: text_config: model_type 'llama' is not supported inside of gemma3");
  nested["text_config"] = {};
  refused("dir/config.json: text_config is missing");
  nested["text_config"] = 3;
  refused("dir/config.json: text_config: expected a JSON object");
  nested["quantization_config"] = {{"quant_method", "awq"}};
  refused("'awq'");
}

// transformers has one window for all layers of Mistral and does not read which.
TEST(HfConfigTest, MistralsLayersAllHaveTheWindow) {
  const auto config = ReadWith(R"({"model_type": "mistral", "sliding_window": 8,
      "num_key_value_heads": 2, "layer_types": ["full_attention", "sliding_attention"]})");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->sliding_windows, (std::vector<int32_t>{8, 8}));
}

TEST(HfConfigTest, WhatIsNotSupportedIsNamed) {
  constexpr auto kUnimplemented = absl::StatusCode::kUnimplemented;
  ExpectRefused(R"({"model_type": "mamba"})", "'mamba' is not supported; supported: llama",
                kUnimplemented);
  ExpectRefused(R"({"rope_theta": 1, "rope_scaling": {"type": "yarn", "factor": 2.0}})",
                "rope theta 1 must be above 1 for yarn");
  for (const std::string type : {"dynamic", "longrope"}) {
    const std::string scaling = R"({"type": ")" + type + R"(", "factor": 4.0})";
    ExpectRefused((R"({"rope_scaling": )" + scaling + "}").c_str(), "'" + type + "'",
                  kUnimplemented);
    ExpectRefused((R"({"rope_parameters": )" + scaling + "}").c_str(), "'" + type + "'",
                  kUnimplemented);
  }
  ExpectRefused(R"({"quantization_config": {"quant_method": "gptq"}})", "'gptq'", kUnimplemented);
  ExpectRefused(R"({"rope_parameters": {"full_attention": {"rope_type": "default"}}})",
                "rope_parameters: full_attention is an object; one set");
  ExpectRefused(R"({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}})",
                "partial_rotary_factor");
}

TEST(HfConfigTest, ValuesAreValidated) {
  ExpectRefused(R"({"model_type": null})", "model_type is missing");
  ExpectRefused(R"({"model_type": 3})", "model_type is of type number; expected a string");
  for (const std::string key : {"vocab_size", "hidden_size", "intermediate_size",
                                "num_hidden_layers", "num_attention_heads"}) {
    ExpectRefused(("{\"" + key + "\": null}").c_str(), key + " is missing");
    ExpectRefused(("{\"" + key + "\": 0}").c_str(), key + " is 0; 1 to ");
    ExpectRefused(("{\"" + key + "\": -4}").c_str(), key + " is -4");
    ExpectRefused(("{\"" + key + "\": 4294967300}").c_str(), key + " is 4294967300; 1 to ");
    ExpectRefused(("{\"" + key + "\": 18446744073709551615}").c_str(),
                  key + " is of type number; expected an integer");
    ExpectRefused(("{\"" + key + "\": 1.5}").c_str(), key + " is of type number");
    ExpectRefused(("{\"" + key + "\": \"64\"}").c_str(), key + " is of type string");
  }
  ExpectRefused(R"({"num_attention_heads": 5})",
                "hidden_size 64 is not divisible by num_attention_heads 5");
  ExpectRefused(R"({"num_key_value_heads": 3})",
                "num_attention_heads 4 is not divisible by num_key_value_heads 3");
  ExpectRefused(R"({"num_key_value_heads": 8})",
                "num_attention_heads 4 is not divisible by num_key_value_heads 8");
  ExpectRefused(R"({"head_dim": 15})", "of 15; an even number");
  ExpectRefused(R"({"hidden_size": 8192, "num_attention_heads": 4})", "of 2048; an even number");
  ExpectRefused(R"({"rms_norm_eps": -1})", "rms_norm_eps is -1");
  ExpectRefused(R"({"rope_theta": 0})", "rope_theta is 0");
  ExpectRefused(R"({"tie_word_embeddings": 1})", "tie_word_embeddings is of type number");
  ExpectRefused(R"({"rope_scaling": 7})", "rope_scaling: expected a JSON object");
  ExpectRefused(R"({"rope_scaling": {"factor": 2}})", "rope_type is missing");
  ExpectRefused(R"({"rope_scaling": {"type": "linear"}})", "factor is missing");
  ExpectRefused(R"({"rope_scaling": {"type": "linear", "factor": 0}})", "factor is 0");
  ExpectRefused(R"({"rope_scaling": {"type": "llama3", "factor": 8, "low_freq_factor": 4,
                    "high_freq_factor": 4, "original_max_position_embeddings": 8192}})",
                "high_freq_factor 4 must be above");
  EXPECT_FALSE(Read(json::array()).ok());
}

TEST(HfConfigTest, GenerationConfig) {
  const auto read = [](const char* text) {
    return ReadHfGenerationConfig("dir/generation_config.json", json::parse(text), 1000);
  };
  const auto empty = read("{}");
  ASSERT_TRUE(empty.ok()) << empty.status();
  EXPECT_TRUE(empty->eos_token_ids.empty());
  EXPECT_FALSE(empty->temperature.has_value());
  EXPECT_FALSE(empty->top_k.has_value());

  const auto full = read(R"({"eos_token_id": [7, 9], "temperature": 0.6, "top_p": 0.9, "top_k": 50,
                             "min_p": 0.05, "repetition_penalty": 1.1, "do_sample": true})");
  ASSERT_TRUE(full.ok()) << full.status();
  EXPECT_EQ(full->eos_token_ids, (std::vector<int32_t>{7, 9}));
  EXPECT_EQ(full->temperature, 0.6f);
  EXPECT_EQ(full->top_p, 0.9f);
  EXPECT_EQ(full->top_k, 50);
  EXPECT_EQ(full->min_p, 0.05f);
  EXPECT_EQ(full->repetition_penalty, 1.1f);
  EXPECT_EQ(full->do_sample, true);

  EXPECT_EQ(read(R"({"eos_token_id": 3})")->eos_token_ids, std::vector<int32_t>{3});
  EXPECT_EQ(read(R"({"top_k": -1})")->top_k, 0);
  for (const char* bad :
       {R"({"eos_token_id": 1000})", R"({"eos_token_id": [-1]})", R"({"eos_token_id": "x"})",
        R"({"temperature": -1})", R"({"top_p": 1.5})", R"({"min_p": -0.1})", R"({"top_k": -2})",
        R"({"repetition_penalty": 0})", R"({"do_sample": "yes"})"}) {
    const auto config = read(bad);
    ASSERT_FALSE(config.ok()) << bad;
    EXPECT_NE(std::string(config.status().message()).find("dir/generation_config.json"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace hydrant::engine::weights
