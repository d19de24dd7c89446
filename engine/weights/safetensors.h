// One safetensors file, memory-mapped and validated before use. The format is eight bytes of
// header length, a JSON header naming each tensor's dtype, shape and place, and the data
// (github.com/huggingface/safetensors). Errors name the file, the tensor and the reason.

#ifndef HYDRANT_ENGINE_WEIGHTS_SAFETENSORS_H_
#define HYDRANT_ENGINE_WEIGHTS_SAFETENSORS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/weights/dequantize.h"
#include "engine/weights/mapped_file.h"

namespace hydrant::engine::weights {

struct SafetensorsDtype {
  const char* name;
  uint32_t bytes;
  bool is_float;
  DequantizeRow dequantize = nullptr;  // nullptr: cannot be read
};

struct SafetensorsTensor {
  std::string name;
  const SafetensorsDtype* dtype = nullptr;
  std::vector<int64_t> shape;  // row-major: the last is the contiguous one; empty: a scalar
  const uint8_t* data = nullptr;
};

class SafetensorsFile {
 public:
  static absl::StatusOr<std::unique_ptr<SafetensorsFile>> Open(const std::string& path);

  const std::vector<SafetensorsTensor>& tensors() const { return tensors_; }  // names are unique
  const MappedFile& file() const { return *file_; }

 private:
  SafetensorsFile() = default;

  std::unique_ptr<MappedFile> file_;
  std::vector<SafetensorsTensor> tensors_;
};

}  // namespace hydrant::engine::weights

#endif  // HYDRANT_ENGINE_WEIGHTS_SAFETENSORS_H_
