// Builds GGUF files in memory, well-formed or not: every count and offset can be overridden.

#ifndef HYDRANT_TESTS_ENGINE_GGUF_WRITER_H_
#define HYDRANT_TESTS_ENGINE_GGUF_WRITER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace hydrant::engine::weights {

// The little-endian bytes of a number.
template <typename T>
std::string Bytes(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(T)};
}

inline std::string GgufString(std::string_view text) {
  return Bytes<uint64_t>(text.size()) + std::string(text);
}

class GgufWriter {
 public:
  uint32_t magic = 0x46554747;
  uint32_t version = 3;
  std::optional<uint64_t> num_tensors, num_keys;  // instead of the true ones
  uint64_t alignment = 32;                        // of the data section and each tensor in it

  // A key that is left out, or written with another type and payload, whatever is asked for.
  struct Replacement {
    std::string key;
    std::optional<std::pair<uint32_t, std::string>> value;
  };
  std::optional<Replacement> replacement;

  // `payload`: the value's bytes, as they go into the file.
  void Key(std::string_view key, uint32_t type, std::string payload) {
    if (replacement && replacement->key == key) {
      if (!replacement->value) return;
      std::tie(type, payload) = *replacement->value;
    }
    keys_ += GgufString(key) + Bytes<uint32_t>(type) + payload;
    ++key_count_;
  }
  void U32(std::string_view key, uint32_t value) { Key(key, 4, Bytes(value)); }
  void F32(std::string_view key, float value) { Key(key, 6, Bytes(value)); }
  void String(std::string_view key, std::string_view value) { Key(key, 8, GgufString(value)); }
  void Array(std::string_view key, uint32_t element_type, uint64_t count,
             const std::string& payload) {
    Key(key, 9, Bytes(element_type) + Bytes(count) + payload);
  }

  // `offset`: instead of the true one.
  void Tensor(std::string_view name, const std::vector<uint64_t>& dims, uint32_t type,
              const std::string& data, std::optional<uint64_t> offset = std::nullopt) {
    tensors_ += GgufString(name) + Bytes<uint32_t>(static_cast<uint32_t>(dims.size()));
    for (const uint64_t dim : dims) tensors_ += Bytes(dim);
    data_.resize((data_.size() + alignment - 1) / alignment * alignment);
    tensors_ += Bytes(type) + Bytes<uint64_t>(offset.value_or(data_.size()));
    data_ += data;
    ++tensor_count_;
  }

  // Everything before the data section, and its padding.
  std::string Header() const {
    std::string file = Bytes(magic) + Bytes(version) + Bytes(num_tensors.value_or(tensor_count_)) +
                       Bytes(num_keys.value_or(key_count_)) + keys_ + tensors_;
    file.resize((file.size() + alignment - 1) / alignment * alignment);
    return file;
  }
  std::string Build() const { return Header() + data_; }

 private:
  std::string keys_, tensors_, data_;
  uint64_t key_count_ = 0, tensor_count_ = 0;
};

}  // namespace hydrant::engine::weights

#endif  // HYDRANT_TESTS_ENGINE_GGUF_WRITER_H_
