// safetensors: the header, and the first and last value of each tensor.

#include <cstddef>
#include <cstdint>

#include "engine/weights/safetensors.h"
#include "tests/fuzz/memory_file.h"

using namespace hydrant;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const MemoryFile memory(data, size);
  const auto file = engine::weights::SafetensorsFile::Open(memory.path());
  if (!file.ok()) return 0;
  for (const engine::weights::SafetensorsTensor& tensor : (*file)->tensors()) {
    int64_t values = 1;
    for (const int64_t dim : tensor.shape) values *= dim == 0 ? 0 : values == 0 ? 0 : dim;
    if (values == 0 || tensor.dtype->dequantize == nullptr) continue;
    float value;
    tensor.dtype->dequantize(tensor.data, 1, &value);
    tensor.dtype->dequantize(tensor.data + (values - 1) * tensor.dtype->bytes, 1, &value);
  }
  return 0;
}
