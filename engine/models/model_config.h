// A model's hyperparameters, the same whatever file they came from. Names are config.json's.

#ifndef HYDRANT_ENGINE_MODELS_MODEL_CONFIG_H_
#define HYDRANT_ENGINE_MODELS_MODEL_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hydrant::engine {

enum class RopeScaling { kNone, kLinear, kLlama3, kYarn };

struct RopeConfig {
  double theta = 10000.0;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1.0;                           // linear, llama3, yarn
  double low_freq_factor = 1.0;                  // llama3
  double high_freq_factor = 4.0;                 // llama3
  int32_t original_max_position_embeddings = 0;  // llama3, yarn
  double beta_fast = 32.0;                       // yarn
  double beta_slow = 1.0;                        // yarn
  bool truncate = true;                          // yarn: the blended range is of whole dimensions
  double attention_factor = 1.0;                 // yarn: multiplies cos and sin
  // GGUF: explicit divisors of each frequency (rope_freqs.weight), [rotary_dim / 2], or empty.
  std::vector<float> freq_divisors;
};

struct ModelConfig {
  std::string model_type;  // Hugging Face's
  int32_t vocab_size = 0;
  int32_t hidden_size = 0;
  int32_t intermediate_size = 0;
  int32_t num_hidden_layers = 0;
  int32_t num_attention_heads = 0;
  int32_t num_key_value_heads = 0;  // 1: MQA
  int32_t head_dim = 0;
  int32_t max_position_embeddings = 0;
  double norm_eps = 1e-5;  // of RMSNorm or LayerNorm, whichever the architecture has
  std::string hidden_act = "silu";
  bool tie_word_embeddings = false;
  bool attention_bias = false;  // q, k, v and o projections
  bool qkv_bias = false;        // q, k and v alone
  bool mlp_bias = false;

  RopeConfig rope;
  // The first dimensions of a head that rotate, 0 for none; FinishConfig turns -1 into all of them.
  int32_t rotary_dim = -1;
  std::vector<int32_t> sliding_windows;    // of each layer, 0 for none; empty: no layer has one
  std::optional<RopeConfig> sliding_rope;  // of layers with a window, where it is another

  // Gemma
  double query_pre_attn_scalar = 0;  // q.k is divided by its root; 0: by that of head_dim
  double norm_weight_offset = 0;     // added to the weights of RMSNorm as they lie in the file
  // GPT-NeoX
  bool use_parallel_residual = false;
  // OPT
  bool do_layer_norm_before = true;
  bool has_final_norm = true;
  int32_t word_embed_proj_dim = 0;  // of the embedding; 0: hidden_size

  int32_t embedding_size() const {
    return word_embed_proj_dim > 0 ? word_embed_proj_dim : hidden_size;
  }
  int32_t window(int layer) const { return sliding_windows.empty() ? 0 : sliding_windows[layer]; }
};

}  // namespace hydrant::engine

#endif  // HYDRANT_ENGINE_MODELS_MODEL_CONFIG_H_
