// A value of a JSON document that knows where it stands, so that every complaint about it names the
// file and the place: "DIR/tokenizer.json: pre_tokenizer.pretokenizers[1].pattern: not a string".

#ifndef HYDRANT_ENGINE_TOKENIZER_JSON_NODE_H_
#define HYDRANT_ENGINE_TOKENIZER_JSON_NODE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

namespace hydrant::engine {

class JsonNode {
 public:
  // NOT_FOUND when there is no such file, INVALID_ARGUMENT when it is not JSON.
  static absl::StatusOr<JsonNode> ReadFile(const std::string& path);

  // A member of an object, or nullopt when absent or null.
  std::optional<JsonNode> Find(std::string_view key) const;

  absl::StatusOr<JsonNode> Member(std::string_view key) const;  // must be there and not null
  absl::StatusOr<std::string> String(std::string_view key) const;
  absl::StatusOr<std::string> Character(std::string_view key) const;  // a string of one character
  absl::StatusOr<int64_t> Int(std::string_view key) const;
  // `absent` where there is no such member or it is null.
  absl::StatusOr<bool> Bool(std::string_view key, bool absent) const;

  absl::StatusOr<std::string> AsString() const;
  absl::StatusOr<int64_t> AsInt() const;
  absl::StatusOr<double> AsNumber() const;
  absl::StatusOr<std::vector<JsonNode>> AsArray() const;
  absl::StatusOr<std::vector<std::pair<std::string, JsonNode>>> AsObject() const;
  bool IsString() const;
  bool IsObject() const;

  // INVALID_ARGUMENT and UNIMPLEMENTED, at this place.
  absl::Status Invalid(std::string_view why) const;
  absl::Status Unsupported(std::string_view what) const;

 private:
  JsonNode(std::shared_ptr<const nlohmann::json> document, const nlohmann::json* value,
           std::string where);

  std::shared_ptr<const nlohmann::json> document_;  // keeps `value_` alive
  const nlohmann::json* value_;
  std::string where_;  // the file, then ": path" below its root
};

}  // namespace hydrant::engine

#endif  // HYDRANT_ENGINE_TOKENIZER_JSON_NODE_H_
