// A checkpoint of each family, written as GGUF the way the conversion does it (names, the order of
// rows, what is added to norms), gives the logits of the Hugging Face directory bit by bit.

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "engine/models/model.h"
#include "engine/weights/checkpoint.h"
#include "kernels/backend.h"
#include "tests/engine/gguf_writer.h"
#include "tests/engine/temp_dir.h"

namespace hydrant::engine {
namespace {

using weights::Bytes;
using weights::Checkpoint;
using weights::GgufWriter;
using Rows = std::vector<std::vector<float>>;

// Hugging Face's name within a layer (or of the whole), and GGUF's.
using Names = std::vector<std::pair<std::string, std::string>>;

const Names kLlamaTop = {
    {"model.embed_tokens", "token_embd"}, {"model.norm", "output_norm"}, {"lm_head", "output"}};
const Names kLlamaLayer = {
    {"input_layernorm", "attn_norm"},    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},      {"self_attn.v_proj", "attn_v"},
    {"self_attn.q_norm", "attn_q_norm"}, {"self_attn.k_norm", "attn_k_norm"},
    {"self_attn.o_proj", "attn_output"}, {"post_attention_layernorm", "ffn_norm"},
    {"mlp.gate_proj", "ffn_gate"},       {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"}};
const Names kGemmaLayer = {{"input_layernorm", "attn_norm"},
                           {"self_attn.q_proj", "attn_q"},
                           {"self_attn.k_proj", "attn_k"},
                           {"self_attn.v_proj", "attn_v"},
                           {"self_attn.q_norm", "attn_q_norm"},
                           {"self_attn.k_norm", "attn_k_norm"},
                           {"self_attn.o_proj", "attn_output"},
                           {"post_attention_layernorm", "post_attention_norm"},
                           {"pre_feedforward_layernorm", "ffn_norm"},
                           {"mlp.gate_proj", "ffn_gate"},
                           {"mlp.up_proj", "ffn_up"},
                           {"mlp.down_proj", "ffn_down"},
                           {"post_feedforward_layernorm", "post_ffw_norm"}};
const Names kNeoXTop = {{"gpt_neox.embed_in", "token_embd"},
                        {"gpt_neox.final_layer_norm", "output_norm"},
                        {"embed_out", "output"}};
const Names kNeoXLayer = {
    {"input_layernorm", "attn_norm"},   {"attention.query_key_value", "attn_qkv"},
    {"attention.dense", "attn_output"}, {"post_attention_layernorm", "ffn_norm"},
    {"mlp.dense_h_to_4h", "ffn_up"},    {"mlp.dense_4h_to_h", "ffn_down"}};

struct Family {
  std::string checkpoint, architecture, layers;
  const Names& top;
  const Names& layer;
};
const Family kFamilies[] = {
    {"llama-gqa", "llama", "model.layers.", kLlamaTop, kLlamaLayer},
    {"mistral", "llama", "model.layers.", kLlamaTop, kLlamaLayer},
    {"qwen2", "qwen2", "model.layers.", kLlamaTop, kLlamaLayer},
    {"qwen3", "qwen3", "model.layers.", kLlamaTop, kLlamaLayer},
    {"gemma3", "gemma3", "model.layers.", kLlamaTop, kGemmaLayer},
    {"gpt-neox", "gptneox", "gpt_neox.layers.", kNeoXTop, kNeoXLayer},
};

// reshape(heads, parts, rows).swapaxes(0, 1) of what is [heads, parts, rows] rows.
Rows Swapped(const Rows& rows, size_t heads, size_t parts) {
  const size_t each = rows.size() / heads / parts;
  Rows result;
  for (size_t part = 0; part < parts; ++part) {
    for (size_t head = 0; head < heads; ++head) {
      for (size_t i = 0; i < each; ++i) result.push_back(rows[(head * parts + part) * each + i]);
    }
  }
  return result;
}

// The rows of q or k as the conversion of LLaMA puts them.
Rows Interleaved(const Rows& rows, size_t head_dim) {
  Rows result;
  for (size_t first = 0; first < rows.size(); first += head_dim) {
    for (size_t i = 0; i < head_dim / 2; ++i) {
      result.push_back(rows[first + i]);
      result.push_back(rows[first + head_dim / 2 + i]);
    }
  }
  return result;
}

std::string Find(const Names& names, const std::string& stem) {
  for (const auto& [hugging_face, gguf] : names) {
    if (stem == hugging_face) return gguf;
  }
  ADD_FAILURE() << stem;
  return "";
}

std::string GgufName(const Family& family, const std::string& name) {
  const size_t dot = name.rfind('.');
  const std::string stem = name.substr(0, dot), suffix = name.substr(dot);
  if (!stem.starts_with(family.layers)) return Find(family.top, stem) + suffix;
  const std::string rest = stem.substr(family.layers.size());
  const size_t number_end = rest.find('.');
  return "blk." + rest.substr(0, number_end) + "." +
         Find(family.layer, rest.substr(number_end + 1)) + suffix;
}

GgufWriter Convert(const Family& family, const Checkpoint& checkpoint) {
  const ModelConfig& c = checkpoint.config();
  GgufWriter writer;
  const std::string prefix = family.architecture + ".";
  writer.String("general.architecture", family.architecture);
  writer.U32(prefix + "block_count", c.num_hidden_layers);
  writer.U32(prefix + "context_length", c.max_position_embeddings);
  writer.U32(prefix + "embedding_length", c.hidden_size);
  writer.U32(prefix + "feed_forward_length", c.intermediate_size);
  writer.U32(prefix + "attention.head_count", c.num_attention_heads);
  writer.U32(prefix + "attention.head_count_kv", c.num_key_value_heads);
  const bool neox = family.architecture == "gptneox";
  writer.F32(prefix + (neox ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon"),
             static_cast<float>(c.norm_eps));
  writer.U32(prefix + "rope.dimension_count", c.rotary_dim);
  writer.F32(prefix + "rope.freq_base", static_cast<float>(c.rope.theta));
  if (neox) {
    writer.Key(prefix + "use_parallel_residual", 7, Bytes<uint8_t>(c.use_parallel_residual));
  } else {
    writer.U32(prefix + "attention.key_length", c.head_dim);
    writer.U32(prefix + "attention.value_length", c.head_dim);
  }
  if (family.architecture == "gemma3") {
    writer.U32(prefix + "attention.sliding_window", c.sliding_windows[0]);
    writer.U32(prefix + "attention.sliding_window_pattern", 2);
  }
  for (const weights::TensorView& tensor : checkpoint.Tensors()) {
    Rows rows(tensor.rows, std::vector<float>(tensor.cols));
    for (int64_t row = 0; row < tensor.rows; ++row) tensor.read_row(row, rows[row].data());
    const bool vector = tensor.rows == 1;
    if (vector) {  // one element a row, so that biases are ordered as weights are
      Rows elements;
      for (const float value : rows[0]) elements.push_back({value});
      rows = elements;
    }
    const std::string name = GgufName(family, tensor.name);
    if (family.architecture == "llama" &&
        (name.find("attn_q.") != std::string::npos || name.find("attn_k.") != std::string::npos)) {
      rows = Interleaved(rows, c.head_dim);
    }
    if (name.find("attn_qkv") != std::string::npos) rows = Swapped(rows, c.num_attention_heads, 3);
    std::string data;
    for (auto& row : rows) {
      for (float value : row) {
        if (family.architecture == "gemma3" && name.find("norm") != std::string::npos) value += 1;
        data += Bytes(value);
      }
    }
    std::vector<uint64_t> dims = {static_cast<uint64_t>(tensor.cols)};
    if (!vector) dims.push_back(tensor.rows);
    writer.Tensor(name, dims, 0, data);
  }
  return writer;
}

// After each of a few tokens, longer than Gemma's window.
std::vector<float> Logits(const Checkpoint& checkpoint) {
  constexpr int kTokens = 60;
  const auto backend = kernels::CreateReferenceBackend();
  const ModelConfig& c = checkpoint.config();
  Model::Options options;
  options.weight_dtype = kernels::WeightDType::kF32;
  options.max_rows = kTokens;
  auto model = Model::Load(checkpoint, *backend, options, [](double) {});
  if (!model.ok()) {
    ADD_FAILURE() << model.status();
    return {};
  }
  const auto store = backend->CreateKvStore({c.num_hidden_layers, c.num_key_value_heads, c.head_dim,
                                             kernels::KvDType::kF32, 4, c.sliding_windows});
  const std::vector<int32_t> blocks = {0, 1, 2, 3};
  kernels::Batch batch;
  for (int i = 0; i < kTokens; ++i) batch.token_ids.push_back((i * 37 + 11) % c.vocab_size);
  batch.positions.resize(kTokens);
  std::iota(batch.positions.begin(), batch.positions.end(), 0);
  batch.sequences.push_back({.num_rows = kTokens, .num_slots = kTokens, .blocks = blocks.data()});
  (*model)->Forward(batch, **store);
  const auto logits = (*model)->Logits(batch.positions);
  return {logits.begin(), logits.end()};
}

class GgufFamiliesTest : public testing::TestWithParam<Family> {};

TEST_P(GgufFamiliesTest, GivesTheLogitsOfTheDirectory) {
  const Family& family = GetParam();
  const auto directory = Checkpoint::Open(HYDRANT_TEST_DATA "/golden/" + family.checkpoint);
  ASSERT_TRUE(directory.ok()) << directory.status();
  const TempDir dir;
  const auto file = Checkpoint::Open(dir.Write("model.gguf", Convert(family, **directory).Build()));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->num_parameters(), (*directory)->num_parameters());
  const std::vector<float> expected = Logits(**directory);
  ASSERT_FALSE(expected.empty());
  for (const float logit : expected) ASSERT_TRUE(std::isfinite(logit));
  EXPECT_EQ(Logits(**file), expected);
}

INSTANTIATE_TEST_SUITE_P(Families, GgufFamiliesTest, testing::ValuesIn(kFamilies),
                         [](const auto& info) {
                           std::string name = info.param.checkpoint;
                           for (char& c : name) {
                             if (c == '-') c = '_';
                           }
                           return name;
                         });

}  // namespace
}  // namespace hydrant::engine
