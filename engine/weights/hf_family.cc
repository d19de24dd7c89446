#include "engine/weights/hf_family.h"

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/weights/config_limits.h"
#include "engine/weights/quote.h"
#include "nlohmann/json.hpp"

namespace hydrant::engine::weights {
namespace {

using nlohmann::json;

// A window of `window` tokens in the layers that "layer_types" calls sliding, or, where there is no
// such list, in those that `slides` says.
template <typename Slides>
void ReadWindows(JsonFields& fields, int32_t window, ModelConfig* config, const Slides& slides) {
  const json* types = fields.Find("layer_types");
  const auto layers = static_cast<size_t>(config->num_hidden_layers);
  if (types != nullptr && (!types->is_array() || types->size() != layers)) {
    return fields.Fail(
        absl::StrCat("layer_types must list as many as num_hidden_layers, ", layers));
  }
  std::vector<int32_t> windows(layers, 0);
  bool any = false;
  for (size_t i = 0; i < layers; ++i) {
    bool sliding = slides(static_cast<int32_t>(i));
    if (types != nullptr) {
      const json& type = (*types)[i];
      sliding = type == "sliding_attention";
      if (!sliding && type != "full_attention") {
        return fields.Fail(
            absl::StrCat("layer_types: ", type.dump(-1, ' ', true, json::error_handler_t::replace),
                         " is not supported; supported: full_attention, sliding_attention"));
      }
    }
    if (sliding) windows[i] = window;
    any = any || sliding;
  }
  if (any) config->sliding_windows = std::move(windows);
}

void ReadMistral(JsonFields& fields, ModelConfig* config) {
  // Silence means 4096 tokens, null means none. All layers have it: transformers reads no
  // "layer_types" here.
  const std::optional<int32_t> window = fields.Int("sliding_window", 1, kMaxPositions);
  if (!window && fields.HasNull("sliding_window")) return;
  config->sliding_windows.assign(config->num_hidden_layers, window.value_or(4096));
}

void ReadQwen(JsonFields& fields, ModelConfig* config) {
  config->qkv_bias = config->model_type == "qwen2";
  if (!fields.Bool("use_sliding_window").value_or(false)) return;
  const int32_t window = fields.Int("sliding_window", 1, kMaxPositions).value_or(4096);
  const int32_t first = fields.Int("max_window_layers", 0, kMaxLayers).value_or(28);
  ReadWindows(fields, window, config, [first](int32_t layer) { return layer >= first; });
}

void ReadOpt(JsonFields& fields, ModelConfig* config) {
  config->rotary_dim = 0;
  config->attention_bias = config->mlp_bias = fields.Bool("enable_bias").value_or(true);
  config->do_layer_norm_before = fields.Bool("do_layer_norm_before").value_or(true);
  config->has_final_norm =
      config->do_layer_norm_before && !fields.Bool("_remove_final_layer_norm").value_or(false);
  config->word_embed_proj_dim =
      fields.Int("word_embed_proj_dim", 1, config->hidden_size).value_or(config->hidden_size);
}

void ReadGptNeoX(JsonFields& fields, ModelConfig* config) {
  config->use_parallel_residual = fields.Bool("use_parallel_residual").value_or(true);
  if (fields.Has("num_key_value_heads")) {
    fields.Fail("num_key_value_heads is not a field of gpt_neox");
  }
  // The share of a head that rotates; newer files have it among the parameters of RoPE.
  std::optional<double> share = fields.Float("rotary_pct", 0, 1);
  if (const json* rope = fields.Find("rope_parameters"); rope != nullptr && rope->is_object()) {
    const auto found = rope->find("partial_rotary_factor");
    if (found != rope->end() && found->is_number()) share = found->get<double>();
  }
  if (config->hidden_size % config->num_attention_heads != 0) return;  // FinishConfig says so
  const int32_t head_dim = config->hidden_size / config->num_attention_heads;
  config->rotary_dim = static_cast<int32_t>(share.value_or(0.25) * head_dim);
}

void ReadGemma3(JsonFields& fields, ModelConfig* config) {
  config->norm_weight_offset = 1;
  config->query_pre_attn_scalar = fields.Float("query_pre_attn_scalar", 1e-3, 1e6).value_or(256);
  const int32_t pattern =
      fields.Int("sliding_window_pattern", 1, kMaxLayers)
          .value_or(fields.Int("_sliding_window_pattern", 1, kMaxLayers).value_or(6));
  const int32_t window = fields.Int("sliding_window", 1, kMaxPositions).value_or(4096);
  ReadWindows(fields, window, config,
              [pattern](int32_t layer) { return (layer + 1) % pattern != 0; });
  if (!config->sliding_rope) {
    config->sliding_rope.emplace();
    config->sliding_rope->theta =
        fields.Float("rope_local_base_freq", kMinRopeTheta, kMaxRopeTheta).value_or(10000.0);
  }
  for (const char* key : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    if (fields.Has(key)) fields.Fail(absl::StrCat(key, " is not supported"));
  }
  if (fields.Bool("use_bidirectional_attention").value_or(false)) {
    fields.Fail("use_bidirectional_attention is not supported");
  }
}

constexpr HfFamily kFamilies[] = {
    {.model_type = "llama"},
    {.model_type = "mistral",
     .max_position_embeddings = 4096 * 32,
     .num_key_value_heads = 8,
     .read_rest = ReadMistral},
    {.model_type = "qwen2",
     .max_position_embeddings = 32768,
     .num_key_value_heads = 32,
     .read_rest = ReadQwen},
    {.model_type = "qwen3",
     .max_position_embeddings = 32768,
     .num_key_value_heads = 32,
     .head_dim = 128,
     .read_rest = ReadQwen},
    {.model_type = "opt",
     .intermediate_size = "ffn_dim",
     .hidden_act = "activation_function",
     .norm_eps = nullptr,
     .default_norm_eps = 1e-5,
     .default_act = "relu",
     .tie_word_embeddings = true,
     .read_rest = ReadOpt},
    {.model_type = "gpt_neox",
     .norm_eps = "layer_norm_eps",
     .base = "gpt_neox.",
     .default_norm_eps = 1e-5,
     .default_act = "gelu",
     .attention_bias = true,
     .read_rest = ReadGptNeoX},
    {.model_type = "gemma3_text",
     .hidden_act = "hidden_activation",
     .vocab_size = 262208,
     .num_attention_heads = 8,
     .max_position_embeddings = 131072,
     .num_key_value_heads = 4,
     .head_dim = 256,
     .rope_theta = 1e6,
     .default_act = "gelu_pytorch_tanh",
     .tie_word_embeddings = true,
     .read_rest = ReadGemma3},
};

constexpr HfTextFamily kTextFamilies[] = {{"gemma3", "gemma3_text"}};

}  // namespace

std::span<const HfFamily> HfFamilies() { return kFamilies; }

const HfFamily* FindHfFamily(std::string_view model_type) {
  for (const HfFamily& family : kFamilies) {
    if (model_type == family.model_type) return &family;
  }
  return nullptr;
}

std::span<const HfTextFamily> HfTextFamilies() { return kTextFamilies; }

}  // namespace hydrant::engine::weights
