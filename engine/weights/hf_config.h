// config.json and generation_config.json of a Hugging Face directory.

#ifndef HYDRANT_ENGINE_WEIGHTS_HF_CONFIG_H_
#define HYDRANT_ENGINE_WEIGHTS_HF_CONFIG_H_

#include <string>

#include "absl/status/statusor.h"
#include "engine/models/model_config.h"
#include "engine/weights/checkpoint.h"
#include "nlohmann/json_fwd.hpp"

namespace hydrant::engine::weights {

// `where`: config.json's path, for messages. UNIMPLEMENTED naming the model type, the kind of RoPE
// or the quantisation when it is not supported; INVALID_ARGUMENT naming the field otherwise.
absl::StatusOr<ModelConfig> ReadHfConfig(const std::string& where, const nlohmann::json& config);

// `vocab_size` bounds the token ids.
absl::StatusOr<GenerationConfig> ReadHfGenerationConfig(const std::string& where,
                                                        const nlohmann::json& config,
                                                        int32_t vocab_size);

}  // namespace hydrant::engine::weights

#endif  // HYDRANT_ENGINE_WEIGHTS_HF_CONFIG_H_
