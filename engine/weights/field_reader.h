// Reads hyperparameters by name, whatever holds them, with their limits. The first error sticks:
// read every field, then ask status() once. Absent fields are nullopt; values out of range and
// wrong types are INVALID_ARGUMENT naming the file, the field and the limit.

#ifndef HYDRANT_ENGINE_WEIGHTS_FIELD_READER_H_
#define HYDRANT_ENGINE_WEIGHTS_FIELD_READER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/weights/gguf.h"
#include "nlohmann/json_fwd.hpp"

namespace hydrant::engine::weights {

class FieldReader {
 public:
  virtual ~FieldReader() = default;

  virtual bool Has(std::string_view key) const = 0;
  std::optional<int32_t> Int(std::string_view key, int32_t min, int32_t max);
  std::optional<double> Float(std::string_view key, double min, double max);  // finite
  std::optional<bool> Bool(std::string_view key);
  std::optional<std::string> String(std::string_view key);
  // As Int; absence is an error too. Returns `min` when there is an error.
  int32_t RequiredInt(std::string_view key, int32_t min, int32_t max);
  double RequiredFloat(std::string_view key, double min, double max);

  // Records "<where>: <message>" unless an error is there already.
  void Fail(std::string_view message);
  const absl::Status& status() const { return status_; }
  const std::string& prefix() const { return prefix_; }  // goes before every key

 protected:
  FieldReader(std::string where, std::string prefix)
      : where_(std::move(where)), prefix_(std::move(prefix)) {}
  const std::string& where() const { return where_; }

 private:
  virtual absl::StatusOr<std::optional<int64_t>> RawInt(std::string_view key) const = 0;
  virtual absl::StatusOr<std::optional<double>> RawFloat(std::string_view key) const = 0;
  virtual absl::StatusOr<std::optional<bool>> RawBool(std::string_view key) const = 0;
  virtual absl::StatusOr<std::optional<std::string>> RawString(std::string_view key) const = 0;
  template <typename T>
  void FailRange(std::string_view key, T value, T min, T max);
  template <typename T>
  std::optional<T> Take(absl::StatusOr<std::optional<T>> value);

  std::string where_;
  std::string prefix_;
  absl::Status status_;
};

// Of a JSON object; null counts as absent. `object` must outlive the reader.
class JsonFields : public FieldReader {
 public:
  // `where`: the file, and the path inside it when `object` is not the root.
  JsonFields(std::string where, const nlohmann::json& object);

  bool Has(std::string_view key) const override;
  bool HasNull(std::string_view key) const;
  // The value, or nullptr when absent or null.
  const nlohmann::json* Find(std::string_view key) const;
  // An integer or a list of integers, each within [0, limit); empty when absent.
  std::vector<int32_t> Ids(std::string_view key, int32_t limit);

 private:
  absl::StatusOr<std::optional<int64_t>> RawInt(std::string_view key) const override;
  absl::StatusOr<std::optional<double>> RawFloat(std::string_view key) const override;
  absl::StatusOr<std::optional<bool>> RawBool(std::string_view key) const override;
  absl::StatusOr<std::optional<std::string>> RawString(std::string_view key) const override;
  absl::Status TypeError(std::string_view key, const char* expected) const;

  const nlohmann::json& object_;
};

// Of a GGUF file's metadata, under keys that start with `prefix` ("llama."). `file` must outlive
// the reader.
class GgufFields : public FieldReader {
 public:
  GgufFields(const GgufFile& file, std::string prefix);

  bool Has(std::string_view key) const override;

 private:
  absl::StatusOr<std::optional<int64_t>> RawInt(std::string_view key) const override;
  absl::StatusOr<std::optional<double>> RawFloat(std::string_view key) const override;
  absl::StatusOr<std::optional<bool>> RawBool(std::string_view key) const override;
  absl::StatusOr<std::optional<std::string>> RawString(std::string_view key) const override;
  std::string Key(std::string_view key) const;

  const GgufFile& file_;
};

}  // namespace hydrant::engine::weights

#endif  // HYDRANT_ENGINE_WEIGHTS_FIELD_READER_H_
