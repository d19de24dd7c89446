#include "engine/weights/config_limits.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace hydrant::engine::weights {
namespace {

absl::Status CheckRope(const ModelConfig& config, const RopeConfig& rope) {
  if (rope.scaling == RopeScaling::kLlama3 && rope.high_freq_factor <= rope.low_freq_factor) {
    return absl::InvalidArgumentError(absl::StrCat("rope high_freq_factor ", rope.high_freq_factor,
                                                   " must be above low_freq_factor ",
                                                   rope.low_freq_factor));
  }
  if (rope.scaling == RopeScaling::kYarn && rope.theta <= 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("rope theta ", rope.theta, " must be above 1 for yarn"));
  }
  if (rope.freq_divisors.empty()) return absl::OkStatus();
  if (rope.freq_divisors.size() != static_cast<size_t>(config.rotary_dim / 2)) {
    return absl::InvalidArgumentError(absl::StrCat(rope.freq_divisors.size(),
                                                   " rope frequency divisors; ", config.rotary_dim,
                                                   " rotary dimensions need half as many"));
  }
  for (const float divisor : rope.freq_divisors) {
    if (!std::isfinite(divisor) || divisor <= 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("a rope frequency divisor is ", divisor, "; it must be positive"));
    }
  }
  return absl::OkStatus();
}

absl::Status Check(const ConfigKeys& keys, ModelConfig* config) {
  if (config->head_dim == 0) {
    if (config->hidden_size % config->num_attention_heads != 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          keys.hidden_size, " ", config->hidden_size, " is not divisible by ", keys.heads, " ",
          config->num_attention_heads, ", and ", keys.head_dim, " is missing"));
    }
    config->head_dim = config->hidden_size / config->num_attention_heads;
  }
  if (config->head_dim > kMaxHeadDim || config->head_dim % 2 != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a head size (", keys.head_dim, ", or ", keys.hidden_size, " by ", keys.heads, ") of ",
        config->head_dim, "; an even number up to ", kMaxHeadDim, " is allowed"));
  }
  if (config->num_attention_heads % config->num_key_value_heads != 0) {
    return absl::InvalidArgumentError(absl::StrCat(keys.heads, " ", config->num_attention_heads,
                                                   " is not divisible by ", keys.kv_heads, " ",
                                                   config->num_key_value_heads));
  }
  if (config->rotary_dim < 0) config->rotary_dim = config->head_dim;
  if (config->rotary_dim > config->head_dim || config->rotary_dim % 2 != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(keys.rotary_dim, " makes ", config->rotary_dim,
                     " rotary dimensions; an even number up to the head size, ", config->head_dim,
                     ", is allowed"));
  }
  absl::Status status = CheckRope(*config, config->rope);
  if (config->sliding_rope) status.Update(CheckRope(*config, *config->sliding_rope));
  return status;
}

}  // namespace

double YarnAttentionFactor(double factor, double mscale) {
  return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1;
}

absl::Status FinishConfig(const std::string& where, const ConfigKeys& keys, ModelConfig* config) {
  const absl::Status status = Check(keys, config);
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(where, ": ", status.message()));
}

}  // namespace hydrant::engine::weights
