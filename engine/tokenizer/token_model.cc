#include "engine/tokenizer/token_model.h"

#include <cstdio>
#include <string>
#include <utility>

namespace hydrant::engine {

absl::StatusOr<Vocabulary> VocabularyFromJson(const JsonNode& json) {
  const absl::StatusOr<JsonNode> member = json.Member("vocab");
  if (!member.ok()) return member.status();
  auto entries = member->AsObject();
  if (!entries.ok()) return entries.status();
  std::vector<std::pair<std::string, int64_t>> tokens;
  tokens.reserve(entries->size());
  for (auto& [token, id_json] : *entries) {
    const absl::StatusOr<int64_t> id = id_json.AsInt();
    if (!id.ok()) return id.status();
    tokens.emplace_back(std::move(token), *id);
  }
  absl::StatusOr<Vocabulary> vocabulary = Vocabulary::Create(std::move(tokens));
  if (!vocabulary.ok()) return member->Invalid(std::string(vocabulary.status().message()));
  return vocabulary;
}

std::array<int32_t, 256> ByteTokens(const Vocabulary& vocabulary) {
  std::array<int32_t, 256> ids;
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof(name), "<0x%02X>", byte);
    ids[byte] = vocabulary.Find(name).value_or(-1);
  }
  return ids;
}

}  // namespace hydrant::engine
