// The strings of a model's tokens, by id and back.

#ifndef HYDRANT_ENGINE_TOKENIZER_VOCABULARY_H_
#define HYDRANT_ENGINE_TOKENIZER_VOCABULARY_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"

namespace hydrant::engine {

class Vocabulary {
 public:
  // Far above every vocabulary in use; keeps a malformed id from asking for gigabytes.
  static constexpr int32_t kMaxTokens = 1 << 24;

  // INVALID_ARGUMENT when an id is negative or not below kMaxTokens. Of two strings with one id, or
  // two ids of one string, the last counts.
  static absl::StatusOr<Vocabulary> Create(std::vector<std::pair<std::string, int64_t>> tokens);

  // One more than the highest id.
  int32_t size() const { return static_cast<int32_t>(tokens_.size()); }
  // How many strings there are: less than size() where ids are left out.
  int32_t count() const { return static_cast<int32_t>(ids_.size()); }
  std::optional<int32_t> Find(std::string_view token) const;
  // Null where no token has that id.
  const std::string* TokenOf(int32_t id) const;

 private:
  Vocabulary() = default;
  std::vector<std::unique_ptr<const std::string>> tokens_;  // keeps the map's keys in place
  absl::flat_hash_map<std::string_view, int32_t> ids_;
};

}  // namespace hydrant::engine

#endif  // HYDRANT_ENGINE_TOKENIZER_VOCABULARY_H_
