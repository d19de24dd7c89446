// The tensor types of ggml, by the numbers that GGUF files use (ggml.h, enum ggml_type). Sizes are
// known for all, so that any file can be checked; a decoder is known for those we read.

#ifndef HYDRANT_ENGINE_WEIGHTS_GGML_TYPES_H_
#define HYDRANT_ENGINE_WEIGHTS_GGML_TYPES_H_

#include <cstdint>
#include <string>

#include "engine/weights/dequantize.h"

namespace hydrant::engine::weights {

struct GgmlType {
  uint32_t id;
  const char* name;
  uint32_t block_size;                   // values in a block
  uint32_t block_bytes;                  // bytes in a block
  DequantizeRow dequantize = nullptr;    // nullptr: cannot be read
  ReadInt4Groups read_groups = nullptr;  // nullptr: not the numbers of int4
};

// nullptr when ggml has no such type (or has it no longer).
const GgmlType* FindGgmlType(uint32_t id);

// The names of the types that have a decoder, for messages: "F32, F16, ...".
std::string ReadableGgmlTypes();

}  // namespace hydrant::engine::weights

#endif  // HYDRANT_ENGINE_WEIGHTS_GGML_TYPES_H_
