// GGUF v2 and v3, memory-mapped and validated before use (format: ggml/docs/gguf.md).
// Every offset, size, count and alignment is checked when the file is opened, so that no accessor
// can read outside it. Errors name the file, the key or tensor, and the reason.

#ifndef HYDRANT_ENGINE_WEIGHTS_GGUF_H_
#define HYDRANT_ENGINE_WEIGHTS_GGUF_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"

namespace hydrant::engine::weights {

class MappedFile;

// Metadata as the file has it. Numbers are widened; strings and arrays of strings are views into
// the mapping.
struct GgufValue {
  std::variant<uint64_t, int64_t, double, bool, std::string_view, std::vector<uint64_t>,
               std::vector<int64_t>, std::vector<double>, std::vector<bool>,
               std::vector<std::string_view>>
      value;
};

struct GgufTensor {
  std::string name;
  std::vector<int64_t> dims;  // as in the file: dims[0] is the contiguous one
  uint32_t type = 0;          // ggml type number
  const uint8_t* data = nullptr;
  uint64_t bytes = 0;
};

class GgufFile {
 public:
  static absl::StatusOr<std::unique_ptr<GgufFile>> Open(const std::string& path);
  ~GgufFile();

  const std::string& path() const { return path_; }
  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  const GgufTensor* FindTensor(std::string_view name) const;

  bool Has(std::string_view key) const;
  // nullopt when the key is absent; INVALID_ARGUMENT naming the key when its type does not fit.
  absl::StatusOr<std::optional<int64_t>> Int(std::string_view key) const;
  absl::StatusOr<std::optional<double>> Float(std::string_view key) const;
  absl::StatusOr<std::optional<bool>> Bool(std::string_view key) const;
  absl::StatusOr<std::optional<std::string_view>> String(std::string_view key) const;
  absl::StatusOr<std::optional<std::vector<int64_t>>> Ints(std::string_view key) const;
  absl::StatusOr<std::optional<std::vector<double>>> Floats(std::string_view key) const;
  absl::StatusOr<std::optional<std::vector<std::string_view>>> Strings(std::string_view key) const;

 private:
  GgufFile();
  std::string path_;
  std::unique_ptr<MappedFile> file_;
  std::unordered_map<std::string, GgufValue> metadata_;
  std::vector<GgufTensor> tensors_;
  std::unordered_map<std::string_view, size_t> tensor_index_;
};

}  // namespace hydrant::engine::weights

#endif  // HYDRANT_ENGINE_WEIGHTS_GGUF_H_
