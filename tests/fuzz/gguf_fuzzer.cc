// GGUF: the container, each architecture's keys, tensors of every type, and the tokenizer's keys.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/tokenizer/tokenizer.h"
#include "engine/weights/checkpoint.h"
#include "engine/weights/gguf.h"
#include "tests/fuzz/memory_file.h"

using namespace hydrant;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const MemoryFile file(data, size);
  if (const auto checkpoint = engine::weights::Checkpoint::Open(file.path()); checkpoint.ok()) {
    for (const engine::weights::TensorView& tensor : (*checkpoint)->Tensors()) {
      std::vector<float> row(static_cast<size_t>(tensor.cols));
      tensor.read_row(0, row.data());
      tensor.read_row(tensor.rows - 1, row.data());
    }
  }
  const auto gguf = engine::weights::GgufFile::Open(file.path());
  if (!gguf.ok()) return 0;
  if (const auto tokenizer = engine::Tokenizer::FromGguf(**gguf); tokenizer.ok()) {
    const auto ids = (*tokenizer)->Encode("Hello  w\xc3\xb6rld, 12\xff\n<s>", true);
    (*tokenizer)->Decode(ids, false);
  }
  return 0;
}
