// Opening and validating. The accessors are in gguf_metadata.cc.

#include "engine/weights/gguf.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/weights/ggml_types.h"
#include "engine/weights/gguf_format.h"
#include "engine/weights/mapped_file.h"
#include "engine/weights/quote.h"

namespace hydrant::engine::weights {
namespace {

// Real files hold some hundred keys and at most some thousand tensors; the limits bound the memory
// of the two tables, whatever a file claims.
constexpr uint64_t kMaxEntries = 65536;
constexpr uint64_t kMaxNameBytes = 65535;
constexpr uint32_t kMaxDims = 4;
constexpr int kMaxArrayNesting = 4;
constexpr uint64_t kDefaultAlignment = 32;

}  // namespace

// Walks the file once from its start. Every read is checked against what is left of it.
class GgufFile::Parser {
 public:
  explicit Parser(GgufFile* file)
      : file_(file), begin_(file->file_->bytes().data()), size_(file->file_->bytes().size()) {}

  absl::Status Parse() {
    uint64_t num_tensors = 0, num_keys = 0;
    if (absl::Status status = ParseHeader(&num_tensors, &num_keys); !status.ok()) return status;
    for (uint64_t i = 0; i < num_keys; ++i) {
      if (absl::Status status = ParseKey(i); !status.ok()) return status;
    }
    file_->tensors_.reserve(num_tensors);
    for (uint64_t i = 0; i < num_tensors; ++i) {
      if (absl::Status status = ParseTensor(i); !status.ok()) return status;
    }
    return PlaceTensors();
  }

 private:
  template <typename... Args>
  absl::Status Error(const Args&... args) const {
    return absl::InvalidArgumentError(absl::StrCat(file_->path_, ": ", args...));
  }

  uint64_t left() const { return size_ - position_; }

  template <typename T>
  bool Read(T* value) {
    if (left() < sizeof(T)) return false;
    *value = GgufLoad<T>(begin_ + position_);
    position_ += sizeof(T);
    return true;
  }

  bool ReadString(std::string_view* text) {
    uint64_t length = 0;
    if (!Read(&length) || length > left()) return false;
    *text = {reinterpret_cast<const char*>(begin_ + position_), static_cast<size_t>(length)};
    position_ += length;
    return true;
  }

  absl::Status ParseHeader(uint64_t* num_tensors, uint64_t* num_keys) {
    uint32_t magic = 0, version = 0;
    if (!Read(&magic) || magic != 0x46554747) return Error("not a GGUF file (no GGUF magic)");
    if (!Read(&version)) return Error("truncated in the header");
    if (version != 2 && version != 3) {
      const bool big_endian = version != 0 && (version & 0xffff) == 0;
      return Error("GGUF version ", version, big_endian ? " (a big-endian file?)" : "",
                   " is not supported; versions 2 and 3 are");
    }
    if (!Read(num_tensors) || !Read(num_keys)) return Error("truncated in the header");
    for (const auto& [count, what] :
         {std::pair(*num_tensors, "tensors"), std::pair(*num_keys, "metadata keys")}) {
      if (count > kMaxEntries) {
        return Error("claims ", count, " ", what, "; the limit is ", kMaxEntries);
      }
    }
    // The least that a key (length, type, one byte) and a tensor (length, dims, type, offset) take.
    const uint64_t least = *num_keys * 13 + *num_tensors * 24;
    if (least > left()) {
      return Error("claims ", *num_tensors, " tensors and ", *num_keys,
                   " metadata keys, more than its ", size_, " bytes can hold");
    }
    return absl::OkStatus();
  }

  absl::Status ParseKey(uint64_t index) {
    std::string_view key;
    if (!ReadString(&key)) return Error("truncated in metadata key ", index);
    if (key.empty() || key.size() > kMaxNameBytes) {
      return Error("metadata key ", index, " has a name of ", key.size(), " bytes; 1 to ",
                   kMaxNameBytes, " are allowed");
    }
    Value value;
    if (!Read(&value.type)) return Error("truncated in metadata key ", Quote(key));
    absl::Status status =
        value.type == kGgufArray ? ParseArray(key, &value, 1) : ParseElements(key, &value);
    if (!status.ok()) return status;
    if (!file_->metadata_.emplace(key, value).second) {
      return Error("metadata key ", Quote(key), " appears twice");
    }
    return absl::OkStatus();
  }

  // Reads element type and count, and walks over the elements. Arrays of arrays are checked and
  // passed over: no key that we know holds one.
  absl::Status ParseArray(std::string_view key, Value* value, int depth) {
    value->is_array = true;
    if (!Read(&value->type) || !Read(&value->count)) {
      return Error("truncated in metadata key ", Quote(key));
    }
    if (value->type != kGgufArray) return ParseElements(key, value);
    if (depth == kMaxArrayNesting) {
      return Error("metadata key ", Quote(key), " nests arrays deeper than ", kMaxArrayNesting);
    }
    value->data = begin_ + position_;
    for (uint64_t i = 0; i < value->count; ++i) {
      Value inner;
      if (absl::Status status = ParseArray(key, &inner, depth + 1); !status.ok()) return status;
    }
    value->bytes = static_cast<uint64_t>(begin_ + position_ - value->data);
    return absl::OkStatus();
  }

  absl::Status ParseElements(std::string_view key, Value* value) {
    if (value->type >= kGgufNumTypes) {
      return Error("metadata key ", Quote(key), " has unknown value type ", value->type);
    }
    value->data = begin_ + position_;
    if (value->type == kGgufString) {
      std::string_view text;
      for (uint64_t i = 0; i < value->count; ++i) {
        if (!ReadString(&text)) {
          return Error("truncated in metadata key ", Quote(key), ", string ", i, " of ",
                       value->count);
        }
      }
    } else {
      const uint64_t element = kGgufTypeBytes[value->type];
      if (value->count > left() / element) {
        return Error("metadata key ", Quote(key), " claims ", value->count, " values of type ",
                     kGgufTypeNames[value->type], ", more than the file holds");
      }
      position_ += value->count * element;
    }
    value->bytes = static_cast<uint64_t>(begin_ + position_ - value->data);
    if (value->type == kGgufBool &&
        std::any_of(value->data, value->data + value->bytes, [](uint8_t b) { return b > 1; })) {
      return Error("metadata key ", Quote(key), " has a bool that is neither 0 nor 1");
    }
    return absl::OkStatus();
  }

  absl::Status ParseTensor(uint64_t index) {
    std::string_view name;
    uint32_t num_dims = 0;
    if (!ReadString(&name)) return Error("truncated in tensor ", index);
    if (name.empty() || name.size() > kMaxNameBytes) {
      return Error("tensor ", index, " has a name of ", name.size(), " bytes; 1 to ", kMaxNameBytes,
                   " are allowed");
    }
    if (!Read(&num_dims)) return Error("truncated in tensor ", Quote(name));
    if (num_dims < 1 || num_dims > kMaxDims) {
      return Error("tensor ", Quote(name), " has ", num_dims, " dimensions; 1 to ", kMaxDims,
                   " are allowed");
    }
    GgufTensor tensor;
    tensor.name = std::string(name);
    constexpr uint64_t kMax = std::numeric_limits<int64_t>::max();
    uint64_t elements = 1;
    for (uint32_t i = 0; i < num_dims; ++i) {
      uint64_t dim = 0;
      if (!Read(&dim)) return Error("truncated in tensor ", Quote(name));
      if (dim == 0) return Error("tensor ", Quote(name), " has a dimension of size 0");
      if (dim > kMax / elements) {
        return Error("tensor ", Quote(name), ": the product of its dimensions overflows");
      }
      elements *= dim;
      tensor.dims.push_back(static_cast<int64_t>(dim));
    }
    uint64_t offset = 0;
    if (!Read(&tensor.type) || !Read(&offset)) return Error("truncated in tensor ", Quote(name));
    const GgmlType* type = FindGgmlType(tensor.type);
    if (type == nullptr) {
      return Error("tensor ", Quote(name), " has unknown ggml type ", tensor.type);
    }
    if (tensor.dims[0] % type->block_size != 0) {
      return Error("tensor ", Quote(name), ": rows of ", tensor.dims[0],
                   " values are not whole blocks of ", type->name, " (", type->block_size, ")");
    }
    const uint64_t blocks = elements / type->block_size;
    if (blocks > kMax / type->block_bytes) {
      return Error("tensor ", Quote(name), ": its size overflows");
    }
    tensor.bytes = blocks * type->block_bytes;
    file_->tensors_.push_back(std::move(tensor));
    offsets_.push_back(offset);
    return absl::OkStatus();
  }

  // The data section starts at the first multiple of the alignment after the tensor table.
  absl::Status PlaceTensors() {
    absl::StatusOr<std::optional<int64_t>> key = file_->Int("general.alignment");
    if (!key.ok()) return key.status();
    const uint64_t alignment = static_cast<uint64_t>(key->value_or(kDefaultAlignment));
    if (!std::has_single_bit(alignment) || alignment > std::numeric_limits<uint32_t>::max()) {
      return Error("general.alignment is ", key->value_or(0), "; it must be a power of two");
    }
    const uint64_t start = (position_ + alignment - 1) / alignment * alignment;
    const uint64_t data_bytes = start < size_ ? size_ - start : 0;
    file_->tensor_index_.reserve(file_->tensors_.size());
    for (size_t i = 0; i < file_->tensors_.size(); ++i) {
      GgufTensor& tensor = file_->tensors_[i];
      if (offsets_[i] % alignment != 0) {
        return Error("tensor ", Quote(tensor.name), ": offset ", offsets_[i],
                     " is not a multiple of the alignment ", alignment);
      }
      if (offsets_[i] > data_bytes || tensor.bytes > data_bytes - offsets_[i]) {
        return Error("tensor ", Quote(tensor.name), ": ", tensor.bytes, " bytes at offset ",
                     offsets_[i], " end outside the file's ", data_bytes,
                     " bytes of tensor data (truncated file?)");
      }
      tensor.data = begin_ + start + offsets_[i];
      if (!file_->tensor_index_.emplace(tensor.name, i).second) {
        return Error("tensor ", Quote(tensor.name), " appears twice");
      }
    }
    return absl::OkStatus();
  }

  GgufFile* file_;
  const uint8_t* begin_;
  uint64_t size_;
  uint64_t position_ = 0;
  std::vector<uint64_t> offsets_;  // of each tensor, from the start of the data section
};

GgufFile::GgufFile() = default;
GgufFile::~GgufFile() = default;

absl::StatusOr<std::unique_ptr<GgufFile>> GgufFile::Open(const std::string& path) {
  absl::StatusOr<std::unique_ptr<MappedFile>> mapped = MappedFile::Open(path);
  if (!mapped.ok()) return mapped.status();
  std::unique_ptr<GgufFile> file(new GgufFile());
  file->path_ = path;
  file->file_ = *std::move(mapped);
  if (absl::Status status = Parser(file.get()).Parse(); !status.ok()) return status;
  return file;
}

const GgufTensor* GgufFile::FindTensor(std::string_view name) const {
  const auto found = tensor_index_.find(name);
  return found == tensor_index_.end() ? nullptr : &tensors_[found->second];
}

}  // namespace hydrant::engine::weights
