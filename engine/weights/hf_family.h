// What config.json says of each architecture that we run: its fields' names, and what transformers
// assumes where it is silent (configuration_*.py of each model).

#ifndef HYDRANT_ENGINE_WEIGHTS_HF_FAMILY_H_
#define HYDRANT_ENGINE_WEIGHTS_HF_FAMILY_H_

#include <span>
#include <string_view>

#include "engine/models/model_config.h"
#include "engine/weights/field_reader.h"

namespace hydrant::engine::weights {

struct HfFamily {
  const char* model_type;
  // Fields whose names differ.
  const char* intermediate_size = "intermediate_size";
  const char* hidden_act = "hidden_act";
  const char* norm_eps = "rms_norm_eps";
  const char* base = "model.";  // what tensors' names but the head's start with
  // Where config.json is silent.
  int32_t vocab_size = 0;           // 0: it must say so
  int32_t num_attention_heads = 0;  // likewise
  int32_t max_position_embeddings = 2048;
  int32_t num_key_value_heads = 0;  // 0: as many as heads
  int32_t head_dim = 0;             // 0: hidden_size / heads
  double default_norm_eps = 1e-6;
  double rope_theta = 10000.0;
  const char* default_act = "silu";
  bool tie_word_embeddings = false;
  bool attention_bias = false;
  // What is left. Runs after the common fields and RoPE were read.
  void (*read_rest)(JsonFields& fields, ModelConfig* config) = nullptr;
};

std::span<const HfFamily> HfFamilies();
const HfFamily* FindHfFamily(std::string_view model_type);  // null: there is none

// Models of text and images that we run the text of: config.json has that under text_config.
struct HfTextFamily {
  const char* model_type;
  const char* text_model_type;
};

std::span<const HfTextFamily> HfTextFamilies();

}  // namespace hydrant::engine::weights

#endif  // HYDRANT_ENGINE_WEIGHTS_HF_FAMILY_H_
