// The architectures: one file each, none with anything to declare but its maker.

#ifndef HYDRANT_ENGINE_MODELS_DECODERS_H_
#define HYDRANT_ENGINE_MODELS_DECODERS_H_

#include <memory>

#include "engine/models/decoder.h"

namespace hydrant::engine {

// Not initialised yet. `backend` outlives the model.
using MakeDecoder = std::unique_ptr<DecoderModel>(const ModelConfig& config,
                                                  kernels::Backend& backend);

MakeDecoder MakeLlama;    // LLaMA 1 to 3, Mistral, Qwen2, Qwen3
MakeDecoder MakeGemma3;   // Gemma 3, text
MakeDecoder MakeOpt;      // OPT
MakeDecoder MakeGptNeoX;  // GPT-NeoX, Pythia

}  // namespace hydrant::engine

#endif  // HYDRANT_ENGINE_MODELS_DECODERS_H_
