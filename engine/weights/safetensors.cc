#include "engine/weights/safetensors.h"

#include <cstring>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/weights/json_file.h"
#include "engine/weights/quote.h"
#include "nlohmann/json.hpp"

namespace hydrant::engine::weights {
namespace {

using nlohmann::json;

// Some 100,000 tensors; the largest real headers are under 2 MB.
constexpr uint64_t kMaxHeaderBytes = 16 << 20;
constexpr size_t kMaxDims = 8;

constexpr SafetensorsDtype kDtypes[] = {
    {"F32", 4, true, DequantizeF32},
    {"F16", 2, true, DequantizeF16},
    {"BF16", 2, true, DequantizeBf16},
    {"F64", 8, true},
    {"F8_E4M3", 1, true},
    {"F8_E5M2", 1, true},
    {"F8_E8M0", 1, true},
    {"I64", 8, false},
    {"I32", 4, false},
    {"I16", 2, false},
    {"I8", 1, false},
    {"U64", 8, false},
    {"U32", 4, false},
    {"U16", 2, false},
    {"U8", 1, false},
    {"BOOL", 1, false},
};

const SafetensorsDtype* FindDtype(std::string_view name) {
  for (const SafetensorsDtype& dtype : kDtypes) {
    if (dtype.name == name) return &dtype;
  }
  return nullptr;
}

// A non-negative integer that fits int64_t.
std::optional<int64_t> Size(const json& value) {
  if (!value.is_number_unsigned()) return std::nullopt;
  const uint64_t number = value.get<uint64_t>();
  if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
  return static_cast<int64_t>(number);
}

// `data`: the file's bytes after the header.
absl::StatusOr<SafetensorsTensor> ParseTensor(const std::string& name, const json& entry,
                                              std::span<const uint8_t> data) {
  if (!entry.is_object()) return absl::InvalidArgumentError("its entry is not a JSON object");
  const auto dtype = entry.find("dtype");
  const auto shape = entry.find("shape");
  const auto offsets = entry.find("data_offsets");
  if (dtype == entry.end() || !dtype->is_string() || shape == entry.end() || !shape->is_array() ||
      offsets == entry.end() || !offsets->is_array() || offsets->size() != 2) {
    return absl::InvalidArgumentError("expected a dtype, a shape, and data_offsets of two numbers");
  }
  SafetensorsTensor tensor;
  tensor.name = name;
  const std::string& dtype_name = dtype->get_ref<const std::string&>();
  tensor.dtype = FindDtype(dtype_name);
  if (tensor.dtype == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("unknown dtype ", Quote(dtype_name)));
  }
  if (shape->size() > kMaxDims) {
    return absl::InvalidArgumentError(
        absl::StrCat(shape->size(), " dimensions; the limit is ", kMaxDims));
  }
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  int64_t bytes = tensor.dtype->bytes;
  for (const json& value : *shape) {
    const std::optional<int64_t> dim = Size(value);
    if (!dim.has_value()) {
      return absl::InvalidArgumentError("a dimension is not a non-negative integer");
    }
    if (*dim > 0 && bytes > kMax / *dim) return absl::InvalidArgumentError("its size overflows");
    bytes *= *dim;
    tensor.shape.push_back(*dim);
  }
  const std::optional<int64_t> begin = Size((*offsets)[0]), end = Size((*offsets)[1]);
  if (!begin.has_value() || !end.has_value() || *begin > *end) {
    return absl::InvalidArgumentError("data_offsets are not two rising non-negative integers");
  }
  if (static_cast<uint64_t>(*end) > data.size()) {
    return absl::InvalidArgumentError(absl::StrCat("data_offsets end at ", *end,
                                                   ", outside the file's ", data.size(),
                                                   " bytes of data (truncated file?)"));
  }
  if (*end - *begin != bytes) {
    return absl::InvalidArgumentError(absl::StrCat("data_offsets span ", *end - *begin,
                                                   " bytes; its dtype and shape need ", bytes));
  }
  tensor.data = data.data() + *begin;
  return tensor;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SafetensorsFile>> SafetensorsFile::Open(const std::string& path) {
  absl::StatusOr<std::unique_ptr<MappedFile>> mapped = MappedFile::Open(path);
  if (!mapped.ok()) return mapped.status();
  std::unique_ptr<SafetensorsFile> file(new SafetensorsFile());
  file->file_ = *std::move(mapped);
  const std::span<const uint8_t> bytes = file->file_->bytes();
  uint64_t header_bytes = 0;
  if (bytes.size() < sizeof(header_bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", bytes.size(), " bytes are too few for a safetensors file"));
  }
  std::memcpy(&header_bytes, bytes.data(), sizeof(header_bytes));
  if (header_bytes > kMaxHeaderBytes || header_bytes > bytes.size() - sizeof(header_bytes)) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": claims a header of ", header_bytes, " bytes; the file has ", bytes.size(),
        ", and the limit is ", kMaxHeaderBytes, " (truncated, or not a safetensors file?)"));
  }
  const char* header_begin = reinterpret_cast<const char*>(bytes.data() + sizeof(header_bytes));
  absl::StatusOr<json> header =
      ParseJsonObject(absl::StrCat(path, ": header"), {header_begin, header_bytes});
  if (!header.ok()) return header.status();
  const std::span<const uint8_t> data = bytes.subspan(sizeof(header_bytes) + header_bytes);
  for (const auto& [name, entry] : header->items()) {
    if (name == "__metadata__") continue;
    absl::StatusOr<SafetensorsTensor> tensor = ParseTensor(name, entry, data);
    if (!tensor.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": tensor ", Quote(name), ": ", tensor.status().message()));
    }
    file->tensors_.push_back(*std::move(tensor));
  }
  return file;
}

}  // namespace hydrant::engine::weights
