// Hugging Face "post_processor" components, for a single text: the ids put around it.

#ifndef HYDRANT_ENGINE_TOKENIZER_POST_PROCESSOR_H_
#define HYDRANT_ENGINE_TOKENIZER_POST_PROCESSOR_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/tokenizer/json_node.h"

namespace hydrant::engine {

struct PostProcessor {
  std::vector<int32_t> prefix;
  std::vector<int32_t> suffix;

  // TemplateProcessing, RobertaProcessing, BertProcessing, ByteLevel (which moves offsets only) and
  // Sequence; UNIMPLEMENTED names any other.
  static absl::StatusOr<PostProcessor> FromJson(const JsonNode& json);
};

}  // namespace hydrant::engine

#endif  // HYDRANT_ENGINE_TOKENIZER_POST_PROCESSOR_H_
