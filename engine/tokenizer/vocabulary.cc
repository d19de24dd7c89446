#include "engine/tokenizer/vocabulary.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace hydrant::engine {

absl::StatusOr<Vocabulary> Vocabulary::Create(std::vector<std::pair<std::string, int64_t>> tokens) {
  Vocabulary vocabulary;
  int64_t size = 0;
  for (const auto& [token, id] : tokens) {
    if (id < 0 || id >= kMaxTokens) {
      return absl::InvalidArgumentError(absl::StrCat("the id ", id, " of token '", token,
                                                     "' is not between 0 and ", kMaxTokens - 1));
    }
    size = std::max(size, id + 1);
  }
  vocabulary.tokens_.resize(size);
  vocabulary.ids_.reserve(tokens.size());
  for (auto& [token, id] : tokens) {
    std::unique_ptr<const std::string>& slot = vocabulary.tokens_[id];
    if (slot) {
      const auto old = vocabulary.ids_.find(*slot);
      if (old != vocabulary.ids_.end() && old->second == id) vocabulary.ids_.erase(old);
    }
    slot = std::make_unique<const std::string>(std::move(token));
    // Erased first: the key must be a view into the string that stays.
    vocabulary.ids_.erase(*slot);
    vocabulary.ids_.emplace(*slot, static_cast<int32_t>(id));
  }
  return vocabulary;
}

std::optional<int32_t> Vocabulary::Find(std::string_view token) const {
  const auto found = ids_.find(token);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

const std::string* Vocabulary::TokenOf(int32_t id) const {
  if (id < 0 || id >= size()) return nullptr;
  return tokens_[id].get();
}

}  // namespace hydrant::engine
