// GGUF v2 and v3, memory-mapped and validated before use (format: ggml/docs/gguf.md).
// Every offset, size, count and alignment is checked when the file is opened, so that no accessor
// can read outside it. Errors name the file, the key or tensor, and the reason. Immutable once
// opened: every const method may be called from several threads.

#ifndef HYDRANT_ENGINE_WEIGHTS_GGUF_H_
#define HYDRANT_ENGINE_WEIGHTS_GGUF_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"

namespace hydrant::engine::weights {

class MappedFile;

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
  const MappedFile& file() const { return *file_; }
  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  const GgufTensor* FindTensor(std::string_view name) const;

  // Views returned below point into the mapping: valid as long as this object.
  bool Has(std::string_view key) const;
  // nullopt when the key is absent; INVALID_ARGUMENT naming the key when its type does not fit,
  // when a number does not fit int64_t, or when an array is longer than 4,194,304 elements. Float
  // and Floats take integers too.
  absl::StatusOr<std::optional<int64_t>> Int(std::string_view key) const;
  absl::StatusOr<std::optional<double>> Float(std::string_view key) const;
  absl::StatusOr<std::optional<bool>> Bool(std::string_view key) const;
  absl::StatusOr<std::optional<std::string_view>> String(std::string_view key) const;
  absl::StatusOr<std::optional<std::vector<int64_t>>> Ints(std::string_view key) const;
  absl::StatusOr<std::optional<std::vector<double>>> Floats(std::string_view key) const;
  absl::StatusOr<std::optional<std::vector<std::string_view>>> Strings(std::string_view key) const;

 private:
  // A metadata value where it lies in the mapping: decoded only when asked for, so that opening a
  // file takes no more memory than its counts of keys and tensors, which are limited.
  struct Value {
    uint32_t type = 0;  // of a scalar, or of an array's elements
    bool is_array = false;
    uint64_t count = 1;             // elements
    const uint8_t* data = nullptr;  // a string's or an array's first element
    uint64_t bytes = 0;             // of all elements
  };
  class Parser;

  GgufFile();
  absl::Status KeyError(std::string_view key, const Value& value, std::string_view expected) const;
  const Value* FindValue(std::string_view key) const;
  // The value of `key`, when present and a scalar (or an array) of at most kMaxArrayElements.
  absl::StatusOr<const Value*> Find(std::string_view key, bool is_array,
                                    std::string_view expected) const;

  std::string path_;
  std::unique_ptr<MappedFile> file_;
  std::unordered_map<std::string_view, Value> metadata_;  // keys are views into the mapping
  std::vector<GgufTensor> tensors_;
  std::unordered_map<std::string_view, size_t> tensor_index_;
};

}  // namespace hydrant::engine::weights

#endif  // HYDRANT_ENGINE_WEIGHTS_GGUF_H_
