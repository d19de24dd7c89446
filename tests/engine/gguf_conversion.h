// Writes a checkpoint of each family as GGUF the way the conversion does it: names, the order of
// rows, what is added to norms, a byte-level tokenizer's keys.

#ifndef HYDRANT_TESTS_ENGINE_GGUF_CONVERSION_H_
#define HYDRANT_TESTS_ENGINE_GGUF_CONVERSION_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/weights/checkpoint.h"
#include "nlohmann/json.hpp"
#include "tests/engine/gguf_writer.h"

namespace hydrant::engine {

using weights::Bytes;
using weights::Checkpoint;
using weights::GgufWriter;
using Rows = std::vector<std::vector<float>>;

// Hugging Face's name within a layer (or of the whole), and GGUF's.
using Names = std::vector<std::pair<std::string, std::string>>;

inline const Names kLlamaTop = {
    {"model.embed_tokens", "token_embd"}, {"model.norm", "output_norm"}, {"lm_head", "output"}};
inline const Names kLlamaLayer = {
    {"input_layernorm", "attn_norm"},    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},      {"self_attn.v_proj", "attn_v"},
    {"self_attn.q_norm", "attn_q_norm"}, {"self_attn.k_norm", "attn_k_norm"},
    {"self_attn.o_proj", "attn_output"}, {"post_attention_layernorm", "ffn_norm"},
    {"mlp.gate_proj", "ffn_gate"},       {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"}};
inline const Names kGemmaLayer = {{"input_layernorm", "attn_norm"},
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
inline const Names kNeoXTop = {{"gpt_neox.embed_in", "token_embd"},
                               {"gpt_neox.final_layer_norm", "output_norm"},
                               {"embed_out", "output"}};
inline const Names kNeoXLayer = {
    {"input_layernorm", "attn_norm"},   {"attention.query_key_value", "attn_qkv"},
    {"attention.dense", "attn_output"}, {"post_attention_layernorm", "ffn_norm"},
    {"mlp.dense_h_to_4h", "ffn_up"},    {"mlp.dense_4h_to_h", "ffn_down"}};

struct Family {
  std::string checkpoint;  // a folder of tests/data/golden
  std::string architecture, layers;
  const Names& top;
  const Names& layer;
};
inline const Family kFamilies[] = {
    {"llama-gqa", "llama", "model.layers.", kLlamaTop, kLlamaLayer},
    {"llama-mqa-bias", "llama", "model.layers.", kLlamaTop, kLlamaLayer},
    {"mistral", "llama", "model.layers.", kLlamaTop, kLlamaLayer},
    {"qwen2", "qwen2", "model.layers.", kLlamaTop, kLlamaLayer},
    {"qwen3", "qwen3", "model.layers.", kLlamaTop, kLlamaLayer},
    {"gemma3", "gemma3", "model.layers.", kLlamaTop, kGemmaLayer},
    {"gpt-neox", "gptneox", "gpt_neox.layers.", kNeoXTop, kNeoXLayer},
};

// reshape(heads, parts, rows).swapaxes(0, 1) of what is [heads, parts, rows] rows.
inline Rows Swapped(const Rows& rows, size_t heads, size_t parts) {
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
inline Rows Interleaved(const Rows& rows, size_t head_dim) {
  Rows result;
  for (size_t first = 0; first < rows.size(); first += head_dim) {
    for (size_t i = 0; i < head_dim / 2; ++i) {
      result.push_back(rows[first + i]);
      result.push_back(rows[first + head_dim / 2 + i]);
    }
  }
  return result;
}

inline std::string Find(const Names& names, const std::string& stem) {
  for (const auto& [hugging_face, gguf] : names) {
    if (stem == hugging_face) return gguf;
  }
  ADD_FAILURE() << stem;
  return "";
}

inline std::string GgufName(const Family& family, const std::string& name) {
  const size_t dot = name.rfind('.');
  const std::string stem = name.substr(0, dot), suffix = name.substr(dot);
  if (!stem.starts_with(family.layers)) return Find(family.top, stem) + suffix;
  const std::string rest = stem.substr(family.layers.size());
  const size_t number_end = rest.find('.');
  return "blk." + rest.substr(0, number_end) + "." +
         Find(family.layer, rest.substr(number_end + 1)) + suffix;
}

// The keys of a byte-level tokenizer, from the content of its tokenizer.json.
inline void ConvertTokenizer(const nlohmann::json& tokenizer, GgufWriter* writer) {
  std::vector<std::string> tokens(tokenizer["model"]["vocab"].size());
  for (const auto& [token, id] : tokenizer["model"]["vocab"].items()) {
    tokens[id.get<size_t>()] = token;
  }
  std::string types;
  std::vector<uint32_t> type_of(tokens.size(), 1);
  for (const auto& added : tokenizer["added_tokens"]) {
    const size_t id = added["id"];
    if (id >= tokens.size()) {
      tokens.resize(id + 1);
      type_of.resize(id + 1, 1);
    }
    tokens[id] = added["content"];
    type_of[id] = added["special"].get<bool>() ? 3 : 4;
  }
  for (const uint32_t type : type_of) types += Bytes(type);
  std::string token_strings, merges;
  for (const std::string& token : tokens) token_strings += weights::GgufString(token);
  for (const auto& merge : tokenizer["model"]["merges"]) {
    merges += weights::GgufString(merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  }
  writer->String("tokenizer.ggml.model", "gpt2");
  writer->String("tokenizer.ggml.pre", "gpt-2");
  writer->Array("tokenizer.ggml.tokens", 8, tokens.size(), token_strings);
  writer->Array("tokenizer.ggml.token_type", 5, tokens.size(), types);
  writer->Array("tokenizer.ggml.merges", 8, tokenizer["model"]["merges"].size(), merges);
  writer->U32("tokenizer.ggml.bos_token_id", 1);
  writer->U32("tokenizer.ggml.eos_token_id", 2);
}

inline GgufWriter Convert(const Family& family, const Checkpoint& checkpoint,
                          GgufWriter writer = {}) {
  const ModelConfig& c = checkpoint.config();
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
  if (c.rope.scaling == RopeScaling::kLinear) {
    writer.String(prefix + "rope.scaling.type", "linear");
    writer.F32(prefix + "rope.scaling.factor", static_cast<float>(c.rope.factor));
  }
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

}  // namespace hydrant::engine

#endif  // HYDRANT_TESTS_ENGINE_GGUF_CONVERSION_H_
