// A checkpoint as the models see it, whatever file it came from: one ModelConfig and tensors under
// Hugging Face's names and layout ("model.layers.0.self_attn.q_proj.weight", [out, in]).
//
// Two sources: a Hugging Face directory (config.json, safetensors of F32, F16, BF16, one file or
// sharded by model.safetensors.index.json, generation_config.json) and a GGUF file (the types that
// ggml_types.cc has a decoder for), whose names are mapped and whose rotary rows of q and k are put
// back into Hugging Face's order. Memory-mapped; everything is validated at Open. Rows come out as
// the exact values that the file's type defines; what a model packs them into is its own choice
// (kernels::WeightDType).

#ifndef HYDRANT_ENGINE_WEIGHTS_CHECKPOINT_H_
#define HYDRANT_ENGINE_WEIGHTS_CHECKPOINT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/models/model_config.h"
#include "engine/weights/chat_templates.h"
#include "kernels/quantization.h"

namespace hydrant::engine {
class Tokenizer;
}

namespace hydrant::engine::weights {

// A tensor of one or two dimensions, handed out as f32 a row at a time (a vector is one row).
// Valid as long as its Checkpoint. Its functions may be called from several threads at once.
struct TensorView {
  std::string name;       // Hugging Face's
  std::string file_name;  // as the file has it, for messages
  std::string type;       // "BF16", "Q4_1", ...
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t bytes = 0;  // in the file
  std::function<void(int64_t row, float* out)> read_row;
  // As in kernels::MatrixSource; set for matrices whose type is a 4-bit one of the form of int4.
  std::function<void(int64_t row, uint8_t* levels, kernels::Int4Range* ranges)> read_groups =
      nullptr;

  // Whether each number has 16 bits of its own or more.
  bool is_float() const { return bytes >= 2 * rows * cols; }
};

// Default sampling and stopping of generation_config.json (or its GGUF likeness).
struct GenerationConfig {
  std::vector<int32_t> eos_token_ids;
  std::optional<float> temperature, top_p, min_p, repetition_penalty;
  std::optional<int32_t> top_k;
  std::optional<bool> do_sample;  // false: greedy unless the request says otherwise
};

// Every id that ends a text: the configuration's, then those that only the tokenizer names.
std::vector<int32_t> EosTokenIds(const GenerationConfig& config, const Tokenizer& tokenizer);

class Checkpoint {
 public:
  // `path`: a .gguf file or a directory. Errors name the file, the tensor or key, and the reason.
  static absl::StatusOr<std::unique_ptr<Checkpoint>> Open(const std::string& path);
  virtual ~Checkpoint() = default;

  virtual std::string_view format() const = 0;  // "gguf", "safetensors"
  virtual const ModelConfig& config() const = 0;
  virtual const GenerationConfig& generation_config() const = 0;
  virtual absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer() const = 0;
  // What the file calls its kind of tokenizer, for `inspect`, whether we can load it or not:
  // "gpt2, pre-tokenizer smollm" in GGUF; "BPE, byte-level" by tokenizer.json. Empty: it says none.
  virtual absl::StatusOr<std::string> TokenizerKind() const = 0;
  virtual const ChatTemplates& chat_templates() const = 0;
  // Jinja source of the template of plain conversations; nullptr when the checkpoint has none.
  const std::string* chat_template() const;

  virtual bool Has(std::string_view name) const = 0;
  // NOT_FOUND naming the tensor; INVALID_ARGUMENT when its shape is not [rows, cols] (a vector:
  // rows = 1).
  virtual absl::StatusOr<TensorView> Tensor(std::string_view name, int64_t rows,
                                            int64_t cols) const = 0;
  virtual std::vector<TensorView> Tensors() const = 0;  // all, for `inspect`
  virtual int64_t num_parameters() const = 0;
  // The weights are packed: the mapping's pages may leave memory (rows read later come back).
  virtual void DropPages() const = 0;
};

}  // namespace hydrant::engine::weights

#endif  // HYDRANT_ENGINE_WEIGHTS_CHECKPOINT_H_
