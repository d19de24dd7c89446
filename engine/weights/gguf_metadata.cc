// The typed accessors of GgufFile.

#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/weights/gguf.h"
#include "engine/weights/gguf_format.h"
#include "engine/weights/quote.h"

namespace hydrant::engine::weights {
namespace {

// Bounds what one call may allocate (64 MB): the largest vocabularies have some 500,000 merges.
constexpr uint64_t kMaxArrayElements = 4194304;

// nullopt when the type is not an integer, or the number is above int64_t's.
std::optional<int64_t> LoadInt(uint32_t type, const uint8_t* data) {
  switch (type) {
    case kGgufUint8:
      return GgufLoad<uint8_t>(data);
    case kGgufInt8:
      return GgufLoad<int8_t>(data);
    case kGgufUint16:
      return GgufLoad<uint16_t>(data);
    case kGgufInt16:
      return GgufLoad<int16_t>(data);
    case kGgufUint32:
      return GgufLoad<uint32_t>(data);
    case kGgufInt32:
      return GgufLoad<int32_t>(data);
    case kGgufInt64:
      return GgufLoad<int64_t>(data);
    case kGgufUint64: {
      const uint64_t value = GgufLoad<uint64_t>(data);
      if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
      return static_cast<int64_t>(value);
    }
    default:
      return std::nullopt;
  }
}

std::optional<double> LoadFloat(uint32_t type, const uint8_t* data) {
  if (type == kGgufFloat32) return GgufLoad<float>(data);
  if (type == kGgufFloat64) return GgufLoad<double>(data);
  const std::optional<int64_t> integer = LoadInt(type, data);
  if (!integer.has_value()) return std::nullopt;
  return static_cast<double>(*integer);
}

std::string_view LoadString(const uint8_t* data) {
  return {reinterpret_cast<const char*>(data + sizeof(uint64_t)),
          static_cast<size_t>(GgufLoad<uint64_t>(data))};
}

}  // namespace

absl::Status GgufFile::KeyError(std::string_view key, const Value& value,
                                std::string_view expected) const {
  return absl::InvalidArgumentError(absl::StrCat(
      path_, ": metadata key ", Quote(key), " is ", value.is_array ? "an array of " : "of type ",
      kGgufTypeNames[value.type], "; expected ", std::string(expected)));
}

const GgufFile::Value* GgufFile::FindValue(std::string_view key) const {
  const auto found = metadata_.find(key);
  return found == metadata_.end() ? nullptr : &found->second;
}

absl::StatusOr<const GgufFile::Value*> GgufFile::Find(std::string_view key, bool is_array,
                                                      std::string_view expected) const {
  const Value* value = FindValue(key);
  if (value == nullptr) return value;
  if (value->is_array != is_array) return KeyError(key, *value, expected);
  if (value->count > kMaxArrayElements) {
    return absl::InvalidArgumentError(absl::StrCat(path_, ": metadata key ", Quote(key), " has ",
                                                   value->count, " elements; the limit is ",
                                                   kMaxArrayElements));
  }
  return value;
}

bool GgufFile::Has(std::string_view key) const { return FindValue(key) != nullptr; }

absl::StatusOr<std::optional<int64_t>> GgufFile::Int(std::string_view key) const {
  constexpr std::string_view kExpected = "an integer within int64";
  absl::StatusOr<const Value*> value = Find(key, false, kExpected);
  if (!value.ok()) return value.status();
  if (*value == nullptr) return std::optional<int64_t>();
  const std::optional<int64_t> result = LoadInt((*value)->type, (*value)->data);
  if (!result.has_value()) return KeyError(key, **value, kExpected);
  return result;
}

absl::StatusOr<std::optional<double>> GgufFile::Float(std::string_view key) const {
  constexpr std::string_view kExpected = "a number";
  absl::StatusOr<const Value*> value = Find(key, false, kExpected);
  if (!value.ok()) return value.status();
  if (*value == nullptr) return std::optional<double>();
  const std::optional<double> result = LoadFloat((*value)->type, (*value)->data);
  if (!result.has_value()) return KeyError(key, **value, kExpected);
  return result;
}

absl::StatusOr<std::optional<bool>> GgufFile::Bool(std::string_view key) const {
  constexpr std::string_view kExpected = "a bool";
  absl::StatusOr<const Value*> value = Find(key, false, kExpected);
  if (!value.ok()) return value.status();
  if (*value == nullptr) return std::optional<bool>();
  if ((*value)->type != kGgufBool) return KeyError(key, **value, kExpected);
  return std::optional<bool>(*(*value)->data != 0);
}

absl::StatusOr<std::optional<std::string_view>> GgufFile::String(std::string_view key) const {
  constexpr std::string_view kExpected = "a string";
  absl::StatusOr<const Value*> value = Find(key, false, kExpected);
  if (!value.ok()) return value.status();
  if (*value == nullptr) return std::optional<std::string_view>();
  if ((*value)->type != kGgufString) return KeyError(key, **value, kExpected);
  return std::optional<std::string_view>(LoadString((*value)->data));
}

absl::StatusOr<std::optional<std::vector<int64_t>>> GgufFile::Ints(std::string_view key) const {
  constexpr std::string_view kExpected = "an array of integers within int64";
  absl::StatusOr<const Value*> value = Find(key, true, kExpected);
  if (!value.ok()) return value.status();
  if (*value == nullptr) return std::optional<std::vector<int64_t>>();
  std::vector<int64_t> result;
  result.reserve((*value)->count);
  for (uint64_t i = 0; i < (*value)->count; ++i) {
    const std::optional<int64_t> element =
        LoadInt((*value)->type, (*value)->data + i * kGgufTypeBytes[(*value)->type]);
    if (!element.has_value()) return KeyError(key, **value, kExpected);
    result.push_back(*element);
  }
  return std::optional(std::move(result));
}

absl::StatusOr<std::optional<std::vector<double>>> GgufFile::Floats(std::string_view key) const {
  constexpr std::string_view kExpected = "an array of numbers";
  absl::StatusOr<const Value*> value = Find(key, true, kExpected);
  if (!value.ok()) return value.status();
  if (*value == nullptr) return std::optional<std::vector<double>>();
  std::vector<double> result;
  result.reserve((*value)->count);
  for (uint64_t i = 0; i < (*value)->count; ++i) {
    const std::optional<double> element =
        LoadFloat((*value)->type, (*value)->data + i * kGgufTypeBytes[(*value)->type]);
    if (!element.has_value()) return KeyError(key, **value, kExpected);
    result.push_back(*element);
  }
  return std::optional(std::move(result));
}

absl::StatusOr<std::optional<std::vector<std::string_view>>> GgufFile::Strings(
    std::string_view key) const {
  constexpr std::string_view kExpected = "an array of strings";
  absl::StatusOr<const Value*> value = Find(key, true, kExpected);
  if (!value.ok()) return value.status();
  if (*value == nullptr) return std::optional<std::vector<std::string_view>>();
  if ((*value)->type != kGgufString) return KeyError(key, **value, kExpected);
  std::vector<std::string_view> result;
  result.reserve((*value)->count);
  const uint8_t* data = (*value)->data;
  for (uint64_t i = 0; i < (*value)->count; ++i) {
    result.push_back(LoadString(data));
    data += sizeof(uint64_t) + result.back().size();
  }
  return std::optional(std::move(result));
}

}  // namespace hydrant::engine::weights
