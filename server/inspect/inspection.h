// What `hydrant inspect` tells of a checkpoint: what it is, what it needs, and how many sequences a
// KV cache of a given size holds. Opens the file and its tokenizer; the weights are not packed.

#ifndef HYDRANT_SERVER_INSPECT_INSPECTION_H_
#define HYDRANT_SERVER_INSPECT_INSPECTION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/models/model_config.h"
#include "engine/request.h"
#include "engine/weights/checkpoint.h"

namespace hydrant::server {

struct InspectOptions {
  std::string model;
  int64_t kv_cache_bytes = int64_t{1} << 30;
  int32_t length = 0;  // tokens of a sequence, prompt and answer; 0: the whole context
  engine::EvictionPolicyKind eviction = engine::EvictionPolicyKind::kH2O;
  int32_t budget_tokens = 1024;
};

struct Inspection {
  struct TensorType {
    std::string name;
    int64_t tensors = 0, values = 0, bytes = 0;
  };
  struct Token {
    int32_t id = 0;
    std::string text;
  };
  struct TokenizerInfo {
    std::string kind;     // as the file calls it
    absl::Status status;  // why it cannot be loaded; what follows is then empty
    int32_t vocab_size = 0;
    std::optional<Token> bos;
    std::vector<Token> eos;  // what ends an answer, of generation_config.json too
  };
  struct KvDType {
    std::string name;
    int64_t bytes_per_token = 0;
    int64_t full_sequences = 0;     // that the cache holds whole
    int64_t bounded_sequences = 0;  // that it holds after their prompts, each in its budget
  };

  std::string path;
  std::string format;
  engine::ModelConfig config;
  int64_t parameters = 0;
  std::vector<TensorType> types;  // by name
  TokenizerInfo tokenizer;
  std::vector<std::string> chat_templates;  // their names
  absl::Status chat_template_status;        // why the default cannot be used
  engine::weights::GenerationConfig generation;
  // Of what --kv_cache_bytes, --length, --eviction and --budget_tokens ask about.
  InspectOptions asked;  // with the length that was meant
  std::vector<KvDType> kv_dtypes;
};

// An error when the checkpoint cannot be opened or --length is beyond its context. A tokenizer or a
// chat template that we cannot use is told in the result.
absl::StatusOr<Inspection> Inspect(const InspectOptions& options);

std::string InspectionText(const Inspection& inspection);
std::string InspectionJson(const Inspection& inspection);

}  // namespace hydrant::server

#endif  // HYDRANT_SERVER_INSPECT_INSPECTION_H_
