// What a ModelConfig may hold. The bounds are far above every real model, and low enough that no
// product of two of them overflows 64 bits; each array that a model allocates by them is still
// checked against the shapes in the file.

#ifndef HYDRANT_ENGINE_WEIGHTS_CONFIG_LIMITS_H_
#define HYDRANT_ENGINE_WEIGHTS_CONFIG_LIMITS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "engine/models/model_config.h"

namespace hydrant::engine::weights {

inline constexpr int32_t kMaxVocabSize = 1 << 24;
inline constexpr int32_t kMaxHiddenSize = 1 << 18;
inline constexpr int32_t kMaxIntermediateSize = 1 << 20;
inline constexpr int32_t kMaxLayers = 4096;
inline constexpr int32_t kMaxHeads = 4096;
inline constexpr int32_t kMaxHeadDim = 1024;
inline constexpr int32_t kMaxPositions = 1 << 28;
inline constexpr double kMaxNormEps = 0.1;
inline constexpr double kMinRopeTheta = 1.0;
inline constexpr double kMaxRopeTheta = 1e15;
inline constexpr double kMinRopeFactor = 1e-3;
inline constexpr double kMaxRopeFactor = 1e6;

// What YaRN multiplies cos and sin by, where a file does not say.
double YarnAttentionFactor(double factor, double mscale = 1);

// What a format calls the fields that FinishConfig checks.
struct ConfigKeys {
  std::string hidden_size, heads, kv_heads, head_dim, rotary_dim;
};

// Sets head_dim to hidden_size / num_attention_heads where it is 0 and rotary_dim to head_dim where
// it is -1, then checks what involves more than one field. (Whether hidden_act is known is for the
// model to say.) Errors are INVALID_ARGUMENT, starting with `where` and naming the keys.
absl::Status FinishConfig(const std::string& where, const ConfigKeys& keys, ModelConfig* config);

}  // namespace hydrant::engine::weights

#endif  // HYDRANT_ENGINE_WEIGHTS_CONFIG_LIMITS_H_
