// Small files of a checkpoint directory, read whole and bounded.

#ifndef HYDRANT_ENGINE_WEIGHTS_JSON_FILE_H_
#define HYDRANT_ENGINE_WEIGHTS_JSON_FILE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

namespace hydrant::engine::weights {

// NOT_FOUND when there is no such file; INVALID_ARGUMENT when it is longer than `max_bytes`.
absl::StatusOr<std::string> ReadText(const std::string& path, uint64_t max_bytes);

// As ReadText; INVALID_ARGUMENT naming `path` and the place when it is not JSON, or its root is
// not an object.
absl::StatusOr<nlohmann::json> ReadJson(const std::string& path, uint64_t max_bytes);

// `where` goes into messages. A key that appears twice in the root object is an error.
absl::StatusOr<nlohmann::json> ParseJsonObject(const std::string& where, std::string_view text);

}  // namespace hydrant::engine::weights

#endif  // HYDRANT_ENGINE_WEIGHTS_JSON_FILE_H_
