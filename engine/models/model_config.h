// A model's hyperparameters, the same whatever file they came from. Names are config.json's.

#ifndef HYDRANT_ENGINE_MODELS_MODEL_CONFIG_H_
#define HYDRANT_ENGINE_MODELS_MODEL_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

namespace hydrant::engine {

enum class RopeScaling { kNone, kLinear, kLlama3 };

struct RopeConfig {
  double theta = 10000.0;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1.0;                           // linear, llama3
  double low_freq_factor = 1.0;                  // llama3
  double high_freq_factor = 4.0;                 // llama3
  int32_t original_max_position_embeddings = 0;  // llama3
  // GGUF: explicit divisors of each frequency (rope_freqs.weight), [head_dim / 2], or empty.
  std::vector<float> freq_divisors;
};

struct ModelConfig {
  std::string model_type;  // "llama"
  int32_t vocab_size = 0;
  int32_t hidden_size = 0;
  int32_t intermediate_size = 0;
  int32_t num_hidden_layers = 0;
  int32_t num_attention_heads = 0;
  int32_t num_key_value_heads = 0;  // 1: MQA
  int32_t head_dim = 0;
  int32_t max_position_embeddings = 0;
  double rms_norm_eps = 1e-5;
  RopeConfig rope;
  std::string hidden_act = "silu";
  bool tie_word_embeddings = false;
  bool attention_bias = false;  // q, k, v and o projections
  bool mlp_bias = false;
  std::vector<int32_t> sliding_windows;  // of each layer, 0 for none; empty: no layer has one
};

}  // namespace hydrant::engine

#endif  // HYDRANT_ENGINE_MODELS_MODEL_CONFIG_H_
