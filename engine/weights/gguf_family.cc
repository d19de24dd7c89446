#include "engine/weights/gguf_family.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/weights/config_limits.h"
#include "engine/weights/field_reader.h"
#include "engine/weights/ggml_types.h"
#include "engine/weights/quote.h"

namespace hydrant::engine::weights {
namespace {

constexpr GgufTensorName kLlamaTop[] = {
    {"token_embd", "model.embed_tokens"},
    {"output_norm", "model.norm"},
    {"output", "lm_head"},
};

// The conversion reorders q and k of this architecture alone.
constexpr GgufTensorName kLlamaLayer[] = {
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj", RowOrder::kRotaryInterleaved},
    {"attn_k", "self_attn.k_proj", RowOrder::kRotaryInterleaved},
    {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
};

constexpr GgufTensorName kQwenLayer[] = {
    {"attn_norm", "input_layernorm"},    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},      {"attn_v", "self_attn.v_proj"},
    {"attn_q_norm", "self_attn.q_norm"}, {"attn_k_norm", "self_attn.k_norm"},
    {"attn_output", "self_attn.o_proj"}, {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},       {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
};

constexpr GgufTensorName kGemma3Layer[] = {
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"attn_output", "self_attn.o_proj"},
    {"post_attention_norm", "post_attention_layernorm"},
    {"ffn_norm", "pre_feedforward_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
};

constexpr GgufTensorName kGptNeoXTop[] = {
    {"token_embd", "gpt_neox.embed_in"},
    {"output_norm", "gpt_neox.final_layer_norm"},
    {"output", "embed_out"},
};

constexpr GgufTensorName kGptNeoXLayer[] = {
    {"attn_norm", "input_layernorm"},
    {"attn_qkv", "attention.query_key_value", RowOrder::kQkvStacked},
    {"attn_output", "attention.dense"},
    {"ffn_norm", "post_attention_layernorm"},
    {"ffn_up", "mlp.dense_h_to_4h"},
    {"ffn_down", "mlp.dense_4h_to_h"},
};

void ReadQwen2(GgufFields&, ModelConfig* config) { config->qkv_bias = true; }

// The conversion adds 1 to the norms' weights. The pattern of windows and the RoPE of layers that
// have one are the architecture's, unless the file names them.
void ReadGemma3(GgufFields& fields, ModelConfig* config) {
  const int32_t window = fields.RequiredInt("attention.sliding_window", 1, kMaxPositions);
  const int32_t pattern = fields.Int("attention.sliding_window_pattern", 1, kMaxLayers).value_or(6);
  for (int32_t layer = 0; layer < config->num_hidden_layers; ++layer) {
    config->sliding_windows.push_back((layer + 1) % pattern != 0 ? window : 0);
  }
  config->sliding_rope.emplace();
  config->sliding_rope->theta =
      fields.Float("rope.freq_base_swa", kMinRopeTheta, kMaxRopeTheta).value_or(10000.0);
  // Only the model of 62 layers, of 27 billion parameters, scales by anything but the head size.
  if (config->num_hidden_layers == 62) {
    config->query_pre_attn_scalar =
        static_cast<double>(config->hidden_size) / config->num_attention_heads;
  }
  for (const char* key : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    if (fields.Has(key)) fields.Fail(absl::StrCat(fields.prefix(), key, " is not supported"));
  }
}

void ReadGptNeoX(GgufFields& fields, ModelConfig* config) {
  config->use_parallel_residual = fields.Bool("use_parallel_residual").value_or(true);
  config->rotary_dim = fields.RequiredInt("rope.dimension_count", 0, kMaxHeadDim);
  config->attention_bias = true;
}

constexpr GgufFamily kFamilies[] = {
    {"llama", "llama", "model.layers.", kLlamaTop, kLlamaLayer},
    {.architecture = "qwen2",
     .model_type = "qwen2",
     .layer_prefix = "model.layers.",
     .top_names = kLlamaTop,
     .layer_names = kQwenLayer,
     .read_rest = ReadQwen2},
    {"qwen3", "qwen3", "model.layers.", kLlamaTop, kQwenLayer},
    {.architecture = "gemma3",
     .model_type = "gemma3_text",
     .layer_prefix = "model.layers.",
     .top_names = kLlamaTop,
     .layer_names = kGemma3Layer,
     .hidden_act = "gelu_pytorch_tanh",
     .read_rest = ReadGemma3},
    {.architecture = "gptneox",
     .model_type = "gpt_neox",
     .layer_prefix = "gpt_neox.layers.",
     .top_names = kGptNeoXTop,
     .layer_names = kGptNeoXLayer,
     .norm_eps = "attention.layer_norm_epsilon",
     .hidden_act = "gelu",
     .read_rest = ReadGptNeoX},
};

constexpr std::string_view kLayerPrefix = "blk.";

void ReadYarn(GgufFields& fields, ModelConfig* config) {
  RopeConfig& rope = config->rope;
  rope.scaling = RopeScaling::kYarn;
  rope.factor = fields.RequiredFloat("rope.scaling.factor", kMinRopeFactor, kMaxRopeFactor);
  rope.original_max_position_embeddings =
      fields.Int("rope.scaling.original_context_length", 1, kMaxPositions)
          .value_or(config->max_position_embeddings);
  const auto number = [&](const char* key, double absent) {
    return fields.Float(absl::StrCat("rope.scaling.", key), kMinRopeFactor, kMaxRopeFactor)
        .value_or(absent);
  };
  rope.beta_fast = number("yarn_beta_fast", 32);
  rope.beta_slow = number("yarn_beta_slow", 1);
  rope.attention_factor = number("yarn_attn_factor", YarnAttentionFactor(rope.factor));
  rope.attention_factor *= number("attn_factor", 1);
  if (number("yarn_ext_factor", 1) != 1) {
    fields.Fail(absl::StrCat(fields.prefix(), "rope.scaling.yarn_ext_factor is not supported"));
  }
  if (fields.Has("rope.scaling.yarn_log_multiplier")) {
    fields.Fail(absl::StrCat(fields.prefix(), "rope.scaling.yarn_log_multiplier is not supported"));
  }
}

absl::Status ReadRope(const GgufFile& file, GgufFields& fields, ModelConfig* config) {
  RopeConfig& rope = config->rope;
  rope.theta = fields.Float("rope.freq_base", kMinRopeTheta, kMaxRopeTheta).value_or(rope.theta);
  const std::string type = fields.String("rope.scaling.type").value_or("none");
  if (type == "linear") {
    rope.scaling = RopeScaling::kLinear;
    rope.factor = fields.RequiredFloat("rope.scaling.factor", kMinRopeFactor, kMaxRopeFactor);
  } else if (type == "yarn") {
    ReadYarn(fields, config);
  } else if (type != "none") {
    return absl::UnimplementedError(
        absl::StrCat(file.path(), ": ", fields.prefix(), "rope.scaling.type ", Quote(type),
                     " is not supported; supported: none, linear, yarn"));
  } else if (const auto factor = fields.Float("rope.scale_linear", kMinRopeFactor, kMaxRopeFactor);
             factor.has_value() && *factor != 1) {  // the key's older name
    rope.scaling = RopeScaling::kLinear;
    rope.factor = *factor;
  }
  const GgufTensor* divisors = file.FindTensor(kRopeFreqsTensor);
  if (divisors == nullptr) return absl::OkStatus();
  const GgmlType* stored = FindGgmlType(divisors->type);
  if (divisors->dims.size() != 1 || divisors->dims[0] > kMaxHeadDim ||
      stored->dequantize == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(file.path(), ": tensor '", std::string(kRopeFreqsTensor),
                     "': expected a vector of at most ", kMaxHeadDim, " numbers"));
  }
  rope.freq_divisors.resize(static_cast<size_t>(divisors->dims[0]));
  stored->dequantize(divisors->data, divisors->dims[0], rope.freq_divisors.data());
  return absl::OkStatus();
}

bool HasTensor(const GgufFile& file, std::string_view suffix) {
  return std::any_of(file.tensors().begin(), file.tensors().end(),
                     [&](const GgufTensor& tensor) { return tensor.name.ends_with(suffix); });
}

}  // namespace

absl::StatusOr<const GgufFamily*> FindGgufFamily(const GgufFile& file) {
  const auto architecture = file.String("general.architecture");
  if (!architecture.ok()) return architecture.status();
  if (!architecture->has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat(file.path(), ": general.architecture is missing"));
  }
  std::string supported;
  for (const GgufFamily& family : kFamilies) {
    if (**architecture == family.architecture) return &family;
    absl::StrAppend(&supported, supported.empty() ? "" : ", ", family.architecture);
  }
  return absl::UnimplementedError(absl::StrCat(file.path(), ": general.architecture ",
                                               Quote(**architecture),
                                               " is not supported; supported: ", supported));
}

absl::StatusOr<ModelConfig> ReadGgufConfig(const GgufFamily& family, const GgufFile& file) {
  GgufFields fields(file, absl::StrCat(family.architecture, "."));
  ModelConfig config;
  config.model_type = family.model_type;
  config.hidden_size = fields.RequiredInt("embedding_length", 1, kMaxHiddenSize);
  config.intermediate_size = fields.RequiredInt("feed_forward_length", 1, kMaxIntermediateSize);
  config.num_hidden_layers = fields.RequiredInt("block_count", 1, kMaxLayers);
  config.num_attention_heads = fields.RequiredInt("attention.head_count", 1, kMaxHeads);
  config.num_key_value_heads =
      fields.Int("attention.head_count_kv", 1, kMaxHeads).value_or(config.num_attention_heads);
  config.head_dim = fields.Int("attention.key_length", 1, kMaxHeadDim).value_or(0);
  config.max_position_embeddings = fields.RequiredInt("context_length", 1, kMaxPositions);
  config.norm_eps = fields.RequiredFloat(family.norm_eps, 0, kMaxNormEps);
  config.hidden_act = family.hidden_act;
  config.tie_word_embeddings = file.FindTensor("output.weight") == nullptr;
  // Said of all projections at once, as in config.json.
  config.attention_bias = HasTensor(file, ".attn_q.bias") && HasTensor(file, ".attn_output.bias");
  config.mlp_bias = HasTensor(file, ".ffn_gate.bias") && HasTensor(file, ".ffn_down.bias");
  if (const auto experts = fields.Int("expert_count", 0, kMaxHeads).value_or(0); experts > 0) {
    return absl::UnimplementedError(
        absl::StrCat(file.path(), ": a mixture of ", experts, " experts is not supported"));
  }
  // The vocabulary's size is that of the embedding; the key of that name is optional, and files
  // whose vocabulary was padded disagree with it.
  const GgufTensor* embedding = file.FindTensor("token_embd.weight");
  if (embedding == nullptr || embedding->dims.size() != 2) {
    fields.Fail(
        "tensor 'token_embd.weight' is missing, or is not a matrix (a vocabulary-only file?)");
  } else if (embedding->dims[1] > kMaxVocabSize) {
    fields.Fail(absl::StrCat("a vocabulary of ", embedding->dims[1], " tokens; the limit is ",
                             kMaxVocabSize));
  } else {
    config.vocab_size = static_cast<int32_t>(embedding->dims[1]);
  }
  const absl::Status rope_status = ReadRope(file, fields, &config);
  if (family.read_rest != nullptr) family.read_rest(fields, &config);
  if (!fields.status().ok()) return fields.status();
  if (!rope_status.ok()) return rope_status;
  const std::string& prefix = fields.prefix();
  const ConfigKeys keys = {prefix + "embedding_length", prefix + "attention.head_count",
                           prefix + "attention.head_count_kv", prefix + "attention.key_length",
                           prefix + "rope.dimension_count"};
  if (absl::Status status = FinishConfig(file.path(), keys, &config); !status.ok()) return status;
  const auto expect = [&](const char* key, int32_t expected, const char* what) {
    const std::optional<int32_t> value = fields.Int(key, 0, kMaxHeadDim);
    if (value.has_value() && *value != expected) {
      fields.Fail(absl::StrCat(fields.prefix(), key, " is ", *value, "; another than ", what, ", ",
                               expected, ", is not supported"));
    }
  };
  expect("rope.dimension_count", config.rotary_dim, "the rotary dimensions");
  expect("attention.value_length", config.head_dim, "the head size");
  if (!fields.status().ok()) return fields.status();
  return config;
}

absl::StatusOr<GenerationConfig> ReadGgufGenerationConfig(const GgufFile& file,
                                                          int32_t vocab_size) {
  GgufFields fields(file, "tokenizer.ggml.");
  GenerationConfig config;
  for (const char* key : {"eos_token_id", "eot_token_id", "eom_token_id"}) {
    const std::optional<int32_t> id = fields.Int(key, 0, vocab_size - 1);
    auto& ids = config.eos_token_ids;
    if (id.has_value() && std::find(ids.begin(), ids.end(), *id) == ids.end()) ids.push_back(*id);
  }
  if (!fields.status().ok()) return fields.status();
  return config;
}

std::optional<MappedName> MapGgufName(const GgufFamily& family, std::string_view name) {
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const std::string_view suffix = name.substr(dot);  // ".weight"
  if (suffix != ".weight" && suffix != ".bias") return std::nullopt;
  std::string_view stem = name.substr(0, dot);
  std::string prefix;
  std::span<const GgufTensorName> names = family.top_names;
  if (stem.starts_with(kLayerPrefix)) {
    stem.remove_prefix(kLayerPrefix.size());
    const size_t digits = stem.find('.');
    if (digits == 0 || digits == std::string_view::npos) return std::nullopt;
    const std::string_view layer = stem.substr(0, digits);
    if (layer.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
    prefix = absl::StrCat(family.layer_prefix, std::string(layer), ".");
    stem.remove_prefix(digits + 1);
    names = family.layer_names;
  }
  for (const GgufTensorName& entry : names) {
    if (stem == entry.gguf) {
      return MappedName{absl::StrCat(prefix, entry.hugging_face, std::string(suffix)), entry.order};
    }
  }
  return std::nullopt;
}

}  // namespace hydrant::engine::weights
