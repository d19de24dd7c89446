// How each architecture that we run is written in GGUF: its hyperparameters' keys, its tensors'
// names, and what was done to their rows (llama.cpp, convert_hf_to_gguf.py and gguf-py's
// tensor_mapping.py).

#ifndef HYDRANT_ENGINE_WEIGHTS_GGUF_FAMILY_H_
#define HYDRANT_ENGINE_WEIGHTS_GGUF_FAMILY_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/models/model_config.h"
#include "engine/weights/checkpoint.h"
#include "engine/weights/field_reader.h"
#include "engine/weights/gguf.h"
#include "engine/weights/tensor_table.h"

namespace hydrant::engine::weights {

struct GgufTensorName {
  const char* gguf;          // without ".weight" or ".bias"; in a layer, without "blk.N."
  const char* hugging_face;  // likewise, without the prefix of a layer
  RowOrder order = RowOrder::kSame;
};

struct GgufFamily {
  const char* architecture;  // general.architecture, and the prefix of its keys
  const char* model_type;    // Hugging Face's
  const char* layer_prefix;  // Hugging Face's, before a layer's number
  std::span<const GgufTensorName> top_names;
  std::span<const GgufTensorName> layer_names;
  const char* norm_eps = "attention.layer_norm_rms_epsilon";
  const char* hidden_act = "silu";
  // What is left. Runs after the common keys and RoPE were read.
  void (*read_rest)(GgufFields& fields, ModelConfig* config) = nullptr;
};

struct MappedName {
  std::string hugging_face;
  RowOrder order = RowOrder::kSame;
};

// By general.architecture. UNIMPLEMENTED naming it, and what is supported, when it is another.
absl::StatusOr<const GgufFamily*> FindGgufFamily(const GgufFile& file);

absl::StatusOr<ModelConfig> ReadGgufConfig(const GgufFamily& family, const GgufFile& file);

// Of the tokenizer's keys: the ids that end a text or a turn.
absl::StatusOr<GenerationConfig> ReadGgufGenerationConfig(const GgufFile& file, int32_t vocab_size);

// Hugging Face's name of a tensor; nullopt when the architecture has no tensor of that name.
std::optional<MappedName> MapGgufName(const GgufFamily& family, std::string_view name);

// What holds values that ReadGgufConfig takes in, and is no tensor of the model.
inline constexpr std::string_view kRopeFreqsTensor = "rope_freqs.weight";

}  // namespace hydrant::engine::weights

#endif  // HYDRANT_ENGINE_WEIGHTS_GGUF_FAMILY_H_
