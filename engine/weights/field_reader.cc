#include "engine/weights/field_reader.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/weights/quote.h"
#include "nlohmann/json.hpp"

namespace hydrant::engine::weights {

using nlohmann::json;

template <typename T>
std::optional<T> FieldReader::Take(absl::StatusOr<std::optional<T>> value) {
  if (value.ok()) return *std::move(value);
  if (status_.ok()) status_ = value.status();
  return std::nullopt;
}

void FieldReader::Fail(std::string_view message) {
  if (!status_.ok()) return;
  status_ = absl::InvalidArgumentError(absl::StrCat(where_, ": ", std::string(message)));
}

template <typename T>
void FieldReader::FailRange(std::string_view key, T value, T min, T max) {
  Fail(absl::StrCat(prefix_, std::string(key), " is ", value, "; ", min, " to ", max,
                    " is allowed"));
}

std::optional<int32_t> FieldReader::Int(std::string_view key, int32_t min, int32_t max) {
  const std::optional<int64_t> value = Take(RawInt(key));
  if (!value.has_value()) return std::nullopt;
  if (*value < min || *value > max) {
    FailRange<int64_t>(key, *value, min, max);
    return std::nullopt;
  }
  return static_cast<int32_t>(*value);
}

std::optional<double> FieldReader::Float(std::string_view key, double min, double max) {
  const std::optional<double> value = Take(RawFloat(key));
  if (!value.has_value()) return std::nullopt;
  if (!(*value >= min && *value <= max)) {  // false for NaN too
    FailRange<double>(key, *value, min, max);
    return std::nullopt;
  }
  return value;
}

std::optional<bool> FieldReader::Bool(std::string_view key) { return Take(RawBool(key)); }

std::optional<std::string> FieldReader::String(std::string_view key) {
  return Take(RawString(key));
}

int32_t FieldReader::RequiredInt(std::string_view key, int32_t min, int32_t max) {
  const std::optional<int32_t> value = Int(key, min, max);
  if (!value.has_value()) Fail(absl::StrCat(prefix_, std::string(key), " is missing"));
  return value.value_or(min);
}

double FieldReader::RequiredFloat(std::string_view key, double min, double max) {
  const std::optional<double> value = Float(key, min, max);
  if (!value.has_value()) Fail(absl::StrCat(prefix_, std::string(key), " is missing"));
  return value.value_or(min);
}

JsonFields::JsonFields(std::string where, const json& object)
    : FieldReader(std::move(where), ""), object_(object) {
  if (!object.is_object()) Fail("expected a JSON object");
}

const json* JsonFields::Find(std::string_view key) const {
  if (!object_.is_object()) return nullptr;
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

bool JsonFields::Has(std::string_view key) const { return Find(key) != nullptr; }

bool JsonFields::HasNull(std::string_view key) const {
  const auto found = object_.find(std::string(key));
  return found != object_.end() && found->is_null();
}

absl::Status JsonFields::TypeError(std::string_view key, const char* expected) const {
  return absl::InvalidArgumentError(absl::StrCat(where(), ": ", std::string(key), " is of type ",
                                                 Find(key)->type_name(), "; expected ", expected));
}

absl::StatusOr<std::optional<int64_t>> JsonFields::RawInt(std::string_view key) const {
  const json* value = Find(key);
  if (value == nullptr) return std::optional<int64_t>();
  const bool too_large = value->is_number_unsigned() && value->get<uint64_t>() > INT64_MAX;
  if (value->is_number_integer() && !too_large) {
    return std::optional(value->get<int64_t>());
  }
  // Writers of JSON do not always keep 8192 and 8192.0 apart.
  if (value->is_number_float()) {
    const double number = value->get<double>();
    if (std::abs(number) < 9e15 && number == std::floor(number)) {
      return std::optional(static_cast<int64_t>(number));
    }
  }
  return TypeError(key, "an integer");
}

absl::StatusOr<std::optional<double>> JsonFields::RawFloat(std::string_view key) const {
  const json* value = Find(key);
  if (value == nullptr) return std::optional<double>();
  if (!value->is_number()) return TypeError(key, "a number");
  return std::optional(value->get<double>());
}

absl::StatusOr<std::optional<bool>> JsonFields::RawBool(std::string_view key) const {
  const json* value = Find(key);
  if (value == nullptr) return std::optional<bool>();
  if (!value->is_boolean()) return TypeError(key, "true or false");
  return std::optional(value->get<bool>());
}

absl::StatusOr<std::optional<std::string>> JsonFields::RawString(std::string_view key) const {
  const json* value = Find(key);
  if (value == nullptr) return std::optional<std::string>();
  if (!value->is_string()) return TypeError(key, "a string");
  return std::optional(value->get<std::string>());
}

std::vector<int32_t> JsonFields::Ids(std::string_view key, int32_t limit) {
  std::vector<int32_t> ids;
  const json* value = Find(key);
  if (value == nullptr) return ids;
  const auto add = [&](const json& id) {
    if (id.is_number_integer() && id >= 0 && id < limit) {
      ids.push_back(id.get<int32_t>());
    } else {
      Fail(absl::StrCat(std::string(key), " holds ", Quote(id.dump(-1, ' ', true)),
                        "; token ids are integers from 0 to ", limit - 1));
    }
  };
  if (value->is_array()) {
    for (const json& id : *value) add(id);
  } else {
    add(*value);
  }
  return ids;
}

GgufFields::GgufFields(const GgufFile& file, std::string prefix)
    : FieldReader(file.path(), std::move(prefix)), file_(file) {}

std::string GgufFields::Key(std::string_view key) const {
  return absl::StrCat(prefix(), std::string(key));
}

bool GgufFields::Has(std::string_view key) const { return file_.Has(Key(key)); }

absl::StatusOr<std::optional<int64_t>> GgufFields::RawInt(std::string_view key) const {
  return file_.Int(Key(key));
}

absl::StatusOr<std::optional<double>> GgufFields::RawFloat(std::string_view key) const {
  return file_.Float(Key(key));
}

absl::StatusOr<std::optional<bool>> GgufFields::RawBool(std::string_view key) const {
  return file_.Bool(Key(key));
}

absl::StatusOr<std::optional<std::string>> GgufFields::RawString(std::string_view key) const {
  auto value = file_.String(Key(key));
  if (!value.ok()) return value.status();
  if (!value->has_value()) return std::optional<std::string>();
  return std::optional<std::string>(**value);
}

}  // namespace hydrant::engine::weights
