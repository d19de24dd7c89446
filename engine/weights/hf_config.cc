#include "engine/weights/hf_config.h"

#include <limits>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/weights/config_limits.h"
#include "engine/weights/field_reader.h"
#include "engine/weights/hf_family.h"
#include "engine/weights/quote.h"
#include "nlohmann/json.hpp"

namespace hydrant::engine::weights {
namespace {

using nlohmann::json;

absl::Status Unsupported(const std::string& where, const std::string& model_type) {
  std::string supported;
  for (const HfFamily& family : HfFamilies()) {
    absl::StrAppend(&supported, supported.empty() ? "" : ", ", family.model_type);
  }
  for (const HfTextFamily& family : HfTextFamilies()) {
    absl::StrAppend(&supported, ", ", family.model_type, " (its text)");
  }
  return absl::UnimplementedError(absl::StrCat(where, ": model_type ", Quote(model_type),
                                               " is not supported; supported: ", supported));
}

absl::Status RefuseQuantization(const std::string& where, const JsonFields& fields) {
  const json* quantization = fields.Find("quantization_config");
  if (quantization == nullptr) return absl::OkStatus();
  JsonFields inner(absl::StrCat(where, ": quantization_config"), *quantization);
  return absl::UnimplementedError(
      absl::StrCat(where, ": weights quantised with ",
                   Quote(inner.String("quant_method").value_or("an unnamed method")),
                   " are not supported; F32, F16 and BF16 are"));
}

// What transformers' _compute_yarn_parameters takes, and assumes where the file is silent.
void ReadYarn(JsonFields& rope, const ModelConfig& config, RopeConfig* result) {
  result->scaling = RopeScaling::kYarn;
  result->original_max_position_embeddings =
      rope.Int("original_max_position_embeddings", 1, kMaxPositions)
          .value_or(config.max_position_embeddings);
  result->factor = rope.Float("factor", kMinRopeFactor, kMaxRopeFactor)
                       .value_or(static_cast<double>(config.max_position_embeddings) /
                                 result->original_max_position_embeddings);
  result->beta_fast = rope.Float("beta_fast", kMinRopeFactor, kMaxRopeFactor).value_or(32);
  result->beta_slow = rope.Float("beta_slow", kMinRopeFactor, kMaxRopeFactor).value_or(1);
  result->truncate = rope.Bool("truncate").value_or(true);
  const double mscale = rope.Float("mscale", 0, kMaxRopeFactor).value_or(0);
  const double mscale_all_dim = rope.Float("mscale_all_dim", 0, kMaxRopeFactor).value_or(0);
  result->attention_factor = YarnAttentionFactor(result->factor);
  if (mscale != 0 && mscale_all_dim != 0) {
    result->attention_factor = YarnAttentionFactor(result->factor, mscale) /
                               YarnAttentionFactor(result->factor, mscale_all_dim);
  }
  result->attention_factor = rope.Float("attention_factor", kMinRopeFactor, kMaxRopeFactor)
                                 .value_or(result->attention_factor);
}

// The scaling itself, from `rope`, whose "rope_type" (older: "type") names it.
absl::Status ReadRopeScaling(const std::string& where, JsonFields& rope, const ModelConfig* config,
                             RopeConfig* result) {
  std::optional<std::string> type = rope.String("rope_type");
  if (!type.has_value()) type = rope.String("type");
  if (!type.has_value()) {
    if (rope.Has("factor")) rope.Fail("rope_type is missing");
    type = "default";
  }
  if (*type == "linear") {
    result->scaling = RopeScaling::kLinear;
    result->factor = rope.RequiredFloat("factor", kMinRopeFactor, kMaxRopeFactor);
  } else if (*type == "llama3") {
    result->scaling = RopeScaling::kLlama3;
    result->factor = rope.RequiredFloat("factor", kMinRopeFactor, kMaxRopeFactor);
    result->low_freq_factor = rope.RequiredFloat("low_freq_factor", kMinRopeFactor, kMaxRopeFactor);
    result->high_freq_factor =
        rope.RequiredFloat("high_freq_factor", kMinRopeFactor, kMaxRopeFactor);
    result->original_max_position_embeddings =
        rope.RequiredInt("original_max_position_embeddings", 1, kMaxPositions);
  } else if (*type == "yarn") {
    ReadYarn(rope, *config, result);
  } else if (*type != "default") {
    return absl::UnimplementedError(absl::StrCat(where, ": rope_type ", Quote(*type),
                                                 " is not supported; supported: default, linear, "
                                                 "llama3, yarn"));
  }
  if (rope.Float("partial_rotary_factor", 0, 1).value_or(1) != 1 &&
      config->model_type != "gpt_neox") {
    rope.Fail("partial_rotary_factor is not supported for this model_type");
  }
  return rope.status();
}

absl::Status ReadRopeParameters(const std::string& where, const json& object, ModelConfig* config,
                                RopeConfig* rope) {
  JsonFields fields(where, object);
  rope->theta = fields.Float("rope_theta", kMinRopeTheta, kMaxRopeTheta).value_or(rope->theta);
  return ReadRopeScaling(where, fields, config, rope);
}

// Newer files hold everything in rope_parameters, where layers with and without a window may have
// a set each; older ones have rope_theta and rope_scaling.
absl::Status ReadRope(const std::string& where, JsonFields& fields, double default_theta,
                      ModelConfig* config) {
  RopeConfig& rope = config->rope;
  rope.theta = default_theta;
  for (const char* key : {"rope_theta", "rotary_emb_base"}) {
    rope.theta = fields.Float(key, kMinRopeTheta, kMaxRopeTheta).value_or(rope.theta);
  }
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const json* object = fields.Find(key);
    if (object == nullptr) continue;
    const std::string inside = absl::StrCat(where, ": ", key);
    JsonFields inner(inside, *object);
    const json* full = inner.Find("full_attention");
    const json* sliding = inner.Find("sliding_attention");
    if (full == nullptr || sliding == nullptr) {
      for (const auto& [name, value] : object->items()) {
        if (!value.is_object()) continue;
        inner.Fail(absl::StrCat(name,
                                " is an object; one set of RoPE parameters, or full_attention and "
                                "sliding_attention, expected"));
        return inner.status();
      }
      return ReadRopeParameters(inside, *object, config, &rope);
    }
    config->sliding_rope.emplace();
    absl::Status status =
        ReadRopeParameters(absl::StrCat(inside, ": full_attention"), *full, config, &rope);
    status.Update(ReadRopeParameters(absl::StrCat(inside, ": sliding_attention"), *sliding, config,
                                     &*config->sliding_rope));
    return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<ModelConfig> ReadConfig(const std::string& where, JsonFields& fields,
                                       const std::string& model_type) {
  const HfFamily* const found = FindHfFamily(model_type);
  if (found == nullptr) return Unsupported(where, model_type);
  const HfFamily& family = *found;
  ModelConfig config;
  config.model_type = family.model_type;
  const auto required = [&](const char* key, int32_t max, int32_t absent) {
    return absent > 0 ? fields.Int(key, 1, max).value_or(absent) : fields.RequiredInt(key, 1, max);
  };
  config.vocab_size = required("vocab_size", kMaxVocabSize, family.vocab_size);
  config.hidden_size = fields.RequiredInt("hidden_size", 1, kMaxHiddenSize);
  config.intermediate_size = fields.RequiredInt(family.intermediate_size, 1, kMaxIntermediateSize);
  config.num_hidden_layers = fields.RequiredInt("num_hidden_layers", 1, kMaxLayers);
  config.num_attention_heads =
      required("num_attention_heads", kMaxHeads, family.num_attention_heads);
  config.num_key_value_heads =
      fields.Int("num_key_value_heads", 1, kMaxHeads)
          .value_or(family.num_key_value_heads > 0 ? family.num_key_value_heads
                                                   : config.num_attention_heads);
  config.head_dim = fields.Int("head_dim", 1, kMaxHeadDim).value_or(family.head_dim);
  config.max_position_embeddings = fields.Int("max_position_embeddings", 1, kMaxPositions)
                                       .value_or(family.max_position_embeddings);
  config.norm_eps = family.default_norm_eps;
  if (family.norm_eps != nullptr) {
    config.norm_eps = fields.Float(family.norm_eps, 0, kMaxNormEps).value_or(config.norm_eps);
  }
  config.hidden_act = fields.String(family.hidden_act).value_or(family.default_act);
  config.tie_word_embeddings =
      fields.Bool("tie_word_embeddings").value_or(family.tie_word_embeddings);
  config.attention_bias = fields.Bool("attention_bias").value_or(family.attention_bias);
  config.mlp_bias = fields.Bool("mlp_bias").value_or(false);
  if (absl::Status status = ReadRope(where, fields, family.rope_theta, &config); !status.ok()) {
    return status;
  }
  if (!fields.status().ok()) return fields.status();
  if (family.read_rest != nullptr) family.read_rest(fields, &config);
  if (!fields.status().ok()) return fields.status();
  const ConfigKeys keys = {"hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim",
                           "partial_rotary_factor (rotary_pct)"};
  if (absl::Status status = FinishConfig(where, keys, &config); !status.ok()) return status;
  return config;
}

// Of the object that config.json has for the language model of several models.
absl::StatusOr<ModelConfig> ReadTextConfig(const std::string& where, const JsonFields& fields,
                                           const HfTextFamily& nested) {
  const json* text = fields.Find("text_config");
  if (text == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": text_config is missing"));
  }
  const std::string inside = absl::StrCat(where, ": text_config");
  JsonFields inner(inside, *text);
  const std::string model_type = inner.String("model_type").value_or(nested.text_model_type);
  if (!inner.status().ok()) return inner.status();
  if (model_type != nested.text_model_type) {
    return absl::UnimplementedError(absl::StrCat(inside, ": model_type ", Quote(model_type),
                                                 " is not supported inside of ",
                                                 nested.model_type));
  }
  return ReadConfig(inside, inner, model_type);
}

}  // namespace

absl::StatusOr<ModelConfig> ReadHfConfig(const std::string& where, const json& root) {
  JsonFields fields(where, root);
  const std::optional<std::string> model_type = fields.String("model_type");
  if (!fields.status().ok()) return fields.status();
  if (!model_type.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": model_type is missing"));
  }
  if (absl::Status status = RefuseQuantization(where, fields); !status.ok()) return status;
  for (const HfTextFamily& nested : HfTextFamilies()) {
    if (*model_type == nested.model_type) {
      return ReadTextConfig(where, fields, nested);
    }
  }
  return ReadConfig(where, fields, *model_type);
}

absl::StatusOr<GenerationConfig> ReadHfGenerationConfig(const std::string& where, const json& root,
                                                        int32_t vocab_size) {
  constexpr double kMaxFloat = std::numeric_limits<float>::max();
  constexpr int32_t kMaxInt = std::numeric_limits<int32_t>::max();
  JsonFields fields(where, root);
  const auto to_float = [](std::optional<double> value) {
    return value.has_value() ? std::optional<float>(static_cast<float>(*value)) : std::nullopt;
  };
  GenerationConfig config;
  config.eos_token_ids = fields.Ids("eos_token_id", vocab_size);
  config.temperature = to_float(fields.Float("temperature", 0, kMaxFloat));
  config.top_p = to_float(fields.Float("top_p", 0, 1));
  config.min_p = to_float(fields.Float("min_p", 0, 1));
  // Above zero, also once it is a float.
  config.repetition_penalty =
      to_float(fields.Float("repetition_penalty", std::numeric_limits<float>::min(), kMaxFloat));
  config.top_k = fields.Int("top_k", -1, kMaxInt);
  if (config.top_k == -1) config.top_k = 0;  // both switch it off
  config.do_sample = fields.Bool("do_sample");
  if (!fields.status().ok()) return fields.status();
  return config;
}

}  // namespace hydrant::engine::weights
