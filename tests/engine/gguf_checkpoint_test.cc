#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "engine/weights/checkpoint.h"
#include "tests/engine/gguf_writer.h"
#include "tests/engine/temp_dir.h"

namespace hydrant::engine::weights {
namespace {

constexpr uint32_t kF32 = 0, kQ8_0 = 8, kIq1S = 19;
constexpr int kHidden = 32, kHeads = 4, kKvHeads = 2, kHeadDim = 8, kMlp = 64, kVocab = 6;

using Matrix = std::vector<std::vector<float>>;  // [rows][cols]

// Small whole numbers, exact in every type.
Matrix Numbers(int rows, int cols, int seed) {
  Matrix matrix(rows, std::vector<float>(cols));
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < cols; ++c) matrix[r][c] = static_cast<float>((r * 7 + c * 3 + seed) % 100);
  }
  return matrix;
}

// What the conversion to GGUF does to q and k: reshape(heads, 2, d / 2).swapaxes(1, 2), rows.
template <typename T>
std::vector<T> Permuted(const std::vector<T>& rows, int heads) {
  const size_t half = rows.size() / heads / 2;
  std::vector<T> result;
  for (int head = 0; head < heads; ++head) {
    for (size_t j = 0; j < half; ++j) {
      for (int part = 0; part < 2; ++part) result.push_back(rows[(head * 2 + part) * half + j]);
    }
  }
  return result;
}

std::string F32Data(const Matrix& matrix) {
  std::string data;
  for (const auto& row : matrix) {
    for (const float value : row) data += Bytes(value);
  }
  return data;
}

// Scale 1 in every block.
std::string Q8Data(const Matrix& matrix) {
  std::string data;
  for (const auto& row : matrix) {
    for (size_t c = 0; c < row.size(); ++c) {
      if (c % 32 == 0) data += Bytes<uint16_t>(0x3c00);
      data += static_cast<char>(static_cast<int8_t>(row[c]));
    }
  }
  return data;
}

struct Options {
  bool biases = false;
  bool untied = false;
};

class GgufCheckpointTest : public testing::Test {
 protected:
  GgufWriter Llama(const Options& options = {}) {
    GgufWriter writer;
    writer.String("general.architecture", "llama");
    writer.U32("llama.block_count", 1);
    writer.U32("llama.context_length", 128);
    writer.U32("llama.embedding_length", kHidden);
    writer.U32("llama.feed_forward_length", kMlp);
    writer.U32("llama.attention.head_count", kHeads);
    writer.U32("llama.attention.head_count_kv", kKvHeads);
    writer.F32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
    writer.U32("llama.rope.dimension_count", kHeadDim);
    writer.U32("tokenizer.ggml.eos_token_id", 2);
    Add(&writer, "token_embd.weight", "model.embed_tokens.weight", kVocab, kHidden);
    Add(&writer, "output_norm.weight", "model.norm.weight", 1, kHidden);
    if (options.untied) Add(&writer, "output.weight", "lm_head.weight", kVocab, kHidden);
    AddLayer(&writer, "attn_norm", "input_layernorm", 1, kHidden, false);
    AddLayer(&writer, "attn_q", "self_attn.q_proj", kHeads * kHeadDim, kHidden, options.biases,
             kHeads);
    AddLayer(&writer, "attn_k", "self_attn.k_proj", kKvHeads * kHeadDim, kHidden, options.biases,
             kKvHeads);
    AddLayer(&writer, "attn_v", "self_attn.v_proj", kKvHeads * kHeadDim, kHidden, options.biases);
    AddLayer(&writer, "attn_output", "self_attn.o_proj", kHidden, kHeads * kHeadDim,
             options.biases);
    AddLayer(&writer, "ffn_norm", "post_attention_layernorm", 1, kHidden, false);
    AddLayer(&writer, "ffn_gate", "mlp.gate_proj", kMlp, kHidden, options.biases);
    AddLayer(&writer, "ffn_up", "mlp.up_proj", kMlp, kHidden, options.biases);
    AddLayer(&writer, "ffn_down", "mlp.down_proj", kHidden, kMlp, options.biases);
    return writer;
  }

  absl::StatusOr<std::unique_ptr<Checkpoint>> Open(const GgufWriter& writer) {
    return Checkpoint::Open(dir_.Write("model.gguf", writer.Build()));
  }

  void ExpectRefused(const GgufWriter& writer, const std::string& reason,
                     absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
    const auto checkpoint = Open(writer);
    ASSERT_FALSE(checkpoint.ok()) << "expected: " << reason;
    EXPECT_EQ(checkpoint.status().code(), code) << checkpoint.status();
    const std::string message(checkpoint.status().message());
    EXPECT_NE(message.find(dir_.path() + "/model.gguf"), std::string::npos) << message;
    EXPECT_NE(message.find(reason), std::string::npos) << message;
  }

  TempDir dir_;
  std::map<std::string, Matrix> expected_;  // by Hugging Face's name

 private:
  // Matrices in Q8_0, vectors in F32; `rotary_heads`: the rows go in as the conversion puts them.
  void Add(GgufWriter* writer, const std::string& gguf, const std::string& name, int rows, int cols,
           int rotary_heads = 0) {
    const Matrix matrix = Numbers(rows, cols, static_cast<int>(expected_.size()));
    expected_[name] = matrix;
    if (rows == 1) {
      const Matrix stored = {rotary_heads == 0 ? matrix[0] : Permuted(matrix[0], rotary_heads)};
      writer->Tensor(gguf, {static_cast<uint64_t>(cols)}, kF32, F32Data(stored));
    } else {
      writer->Tensor(gguf, {static_cast<uint64_t>(cols), static_cast<uint64_t>(rows)}, kQ8_0,
                     Q8Data(rotary_heads == 0 ? matrix : Permuted(matrix, rotary_heads)));
    }
  }

  void AddLayer(GgufWriter* writer, const std::string& gguf, const std::string& name, int rows,
                int cols, bool bias, int rotary_heads = 0) {
    Add(writer, "blk.0." + gguf + ".weight", "model.layers.0." + name + ".weight", rows, cols,
        rotary_heads);
    if (bias) {
      Add(writer, "blk.0." + gguf + ".bias", "model.layers.0." + name + ".bias", 1, rows,
          rotary_heads);
    }
  }
};

TEST_F(GgufCheckpointTest, Config) {
  const auto checkpoint = Open(Llama());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ((*checkpoint)->format(), "gguf");
  const ModelConfig& config = (*checkpoint)->config();
  EXPECT_EQ(config.model_type, "llama");
  EXPECT_EQ(config.vocab_size, kVocab);
  EXPECT_EQ(config.hidden_size, kHidden);
  EXPECT_EQ(config.intermediate_size, kMlp);
  EXPECT_EQ(config.num_hidden_layers, 1);
  EXPECT_EQ(config.num_attention_heads, kHeads);
  EXPECT_EQ(config.num_key_value_heads, kKvHeads);
  EXPECT_EQ(config.head_dim, kHeadDim);
  EXPECT_EQ(config.max_position_embeddings, 128);
  EXPECT_FLOAT_EQ(static_cast<float>(config.norm_eps), 1e-5f);
  EXPECT_EQ(config.rope.theta, 10000.0);
  EXPECT_EQ(config.rope.scaling, RopeScaling::kNone);
  EXPECT_TRUE(config.rope.freq_divisors.empty());
  EXPECT_EQ(config.hidden_act, "silu");
  EXPECT_TRUE(config.tie_word_embeddings);
  EXPECT_FALSE(config.attention_bias);
  EXPECT_FALSE(config.mlp_bias);
  EXPECT_EQ((*checkpoint)->generation_config().eos_token_ids, std::vector<int32_t>{2});
  EXPECT_EQ((*checkpoint)->chat_template(), nullptr);
}

TEST_F(GgufCheckpointTest, TensorsInHuggingFacesNamesAndRowOrder) {
  const auto checkpoint = Open(Llama({.biases = true, .untied = true}));
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_FALSE((*checkpoint)->config().tie_word_embeddings);
  EXPECT_TRUE((*checkpoint)->config().attention_bias);
  EXPECT_TRUE((*checkpoint)->config().mlp_bias);
  EXPECT_EQ((*checkpoint)->Tensors().size(), expected_.size());
  int64_t parameters = 0;
  for (const auto& [name, matrix] : expected_) {
    const auto tensor = (*checkpoint)
                            ->Tensor(name, static_cast<int64_t>(matrix.size()),
                                     static_cast<int64_t>(matrix[0].size()));
    ASSERT_TRUE(tensor.ok()) << tensor.status();
    for (size_t r = 0; r < matrix.size(); ++r) {
      std::vector<float> row(matrix[r].size());
      tensor->read_row(static_cast<int64_t>(r), row.data());
      EXPECT_EQ(row, matrix[r]) << name << " row " << r;
    }
    parameters += static_cast<int64_t>(matrix.size() * matrix[0].size());
  }
  EXPECT_EQ((*checkpoint)->num_parameters(), parameters);
  const auto view = (*checkpoint)->Tensor("model.layers.0.self_attn.q_proj.weight", 32, 32);
  EXPECT_EQ(view->file_name, "blk.0.attn_q.weight");
  EXPECT_EQ(view->type, "Q8_0");
  const absl::Status shape = (*checkpoint)->Tensor(view->name, 32, 64).status();
  EXPECT_NE(std::string(shape.message()).find("('blk.0.attn_q.weight' in the file) is [32, 32]"),
            std::string::npos)
      << shape;
}

TEST_F(GgufCheckpointTest, Rope) {
  GgufWriter writer = Llama();
  writer.F32("llama.rope.freq_base", 500000.0f);
  writer.Tensor("rope_freqs.weight", {4}, kF32, F32Data({{1, 2, 4, 8}}));
  auto checkpoint = Open(writer);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ((*checkpoint)->config().rope.theta, 500000.0);
  EXPECT_EQ((*checkpoint)->config().rope.freq_divisors, (std::vector<float>{1, 2, 4, 8}));
  EXPECT_FALSE((*checkpoint)->Has("rope_freqs.weight"));

  writer = Llama();
  writer.String("llama.rope.scaling.type", "linear");
  writer.F32("llama.rope.scaling.factor", 4.0f);
  checkpoint = Open(writer);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ((*checkpoint)->config().rope.scaling, RopeScaling::kLinear);
  EXPECT_EQ((*checkpoint)->config().rope.factor, 4.0);

  writer = Llama();
  writer.F32("llama.rope.scale_linear", 2.0f);
  checkpoint = Open(writer);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ((*checkpoint)->config().rope.scaling, RopeScaling::kLinear);
  EXPECT_EQ((*checkpoint)->config().rope.factor, 2.0);

  writer = Llama();
  writer.String("llama.rope.scaling.type", "longrope");
  ExpectRefused(writer, "llama.rope.scaling.type 'longrope'", absl::StatusCode::kUnimplemented);
  writer = Llama();
  writer.String("llama.rope.scaling.type", "linear");
  ExpectRefused(writer, "llama.rope.scaling.factor is missing");
  writer = Llama();
  writer.Tensor("rope_freqs.weight", {3}, kF32, F32Data({{1, 2, 4}}));
  ExpectRefused(writer, "3 rope frequency divisors");
  writer = Llama();
  writer.Tensor("rope_freqs.weight", {4}, kF32, F32Data({{1, 2, 0, 8}}));
  ExpectRefused(writer, "divisor is 0");
}

TEST_F(GgufCheckpointTest, Yarn) {
  GgufWriter writer = Llama();
  writer.String("llama.rope.scaling.type", "yarn");
  writer.F32("llama.rope.scaling.factor", 4.0f);
  auto checkpoint = Open(writer);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const RopeConfig silent = (*checkpoint)->config().rope;
  EXPECT_EQ(silent.scaling, RopeScaling::kYarn);
  EXPECT_EQ(silent.factor, 4.0);
  EXPECT_EQ(silent.original_max_position_embeddings, 128);
  EXPECT_EQ(silent.beta_fast, 32.0);
  EXPECT_EQ(silent.beta_slow, 1.0);
  EXPECT_NEAR(silent.attention_factor, 1.1386294, 1e-7);

  writer.U32("llama.rope.scaling.original_context_length", 32);
  writer.F32("llama.rope.scaling.yarn_beta_fast", 16.0f);
  writer.F32("llama.rope.scaling.yarn_beta_slow", 2.0f);
  writer.F32("llama.rope.scaling.yarn_attn_factor", 0.75f);
  checkpoint = Open(writer);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const RopeConfig told = (*checkpoint)->config().rope;
  EXPECT_EQ(told.original_max_position_embeddings, 32);
  EXPECT_EQ(told.beta_fast, 16.0);
  EXPECT_EQ(told.beta_slow, 2.0);
  EXPECT_EQ(told.attention_factor, 0.75);

  writer.F32("llama.rope.scaling.yarn_ext_factor", 0.5f);
  ExpectRefused(writer, "llama.rope.scaling.yarn_ext_factor is not supported");
  writer = Llama();
  writer.String("llama.rope.scaling.type", "yarn");
  ExpectRefused(writer, "llama.rope.scaling.factor is missing");
}

TEST_F(GgufCheckpointTest, StopTokensAndChatTemplate) {
  GgufWriter writer = Llama();
  writer.U32("tokenizer.ggml.eot_token_id", 5);
  writer.U32("tokenizer.ggml.eom_token_id", 2);
  writer.String("tokenizer.chat_template", "{{ messages }}");
  writer.Array("tokenizer.chat_templates", 8, 2, GgufString("tool_use") + GgufString("default"));
  writer.String("tokenizer.chat_template.tool_use", "{{ tools }}");
  const auto checkpoint = Open(writer);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ((*checkpoint)->generation_config().eos_token_ids, (std::vector<int32_t>{2, 5}));
  EXPECT_EQ((*checkpoint)->chat_templates(),
            (ChatTemplates{{"default", "{{ messages }}"}, {"tool_use", "{{ tools }}"}}));
  writer = Llama();
  writer.U32("tokenizer.ggml.eot_token_id", kVocab);
  ExpectRefused(writer, "tokenizer.ggml.eot_token_id is 6; 0 to 5 is allowed");
}

TEST_F(GgufCheckpointTest, WhatIsNotSupportedIsNamed) {
  constexpr auto kUnimplemented = absl::StatusCode::kUnimplemented;
  GgufWriter writer;
  ExpectRefused(writer, "general.architecture is missing");
  writer.String("general.architecture", "mamba");
  ExpectRefused(writer, "'mamba' is not supported; supported: llama", kUnimplemented);
  writer = GgufWriter();
  writer.String("general.architecture", "llama");
  ExpectRefused(writer, "llama.embedding_length is missing");
  writer = Llama();
  writer.Tensor("blk.0.attn_gate.weight", {256}, kIq1S, std::string(50, 'x'));
  ExpectRefused(writer, "'blk.0.attn_gate.weight' is not part of the architecture");
  writer = Llama();
  writer.Tensor("blk.1.ffn_up.weight", {256}, kIq1S, std::string(50, 'x'));
  ExpectRefused(writer, "tensor 'blk.1.ffn_up.weight' is of type IQ1_S");
  writer = Llama();
  writer.U32("llama.expert_count", 8);
  ExpectRefused(writer, "a mixture of 8 experts", kUnimplemented);
  writer = Llama();
  writer.U32("split.count", 3);
  ExpectRefused(writer, "one part of 3", kUnimplemented);
  writer = Llama();
  writer.U32("llama.attention.value_length", 4);
  ExpectRefused(writer, "llama.attention.value_length is 4");
  writer = Llama();
  writer.U32("llama.attention.key_length", 16);
  ExpectRefused(writer, "llama.rope.dimension_count is 8");
  writer = Llama();
  writer.Tensor("blk.1.attn_q.bias", {12}, kF32, F32Data({std::vector<float>(12)}));
  ExpectRefused(writer, "12 rows are not whole heads of 8");
}

}  // namespace
}  // namespace hydrant::engine::weights
