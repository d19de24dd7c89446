#include "engine/tokenizer/post_processor.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/tokenizer/vocabulary.h"

namespace hydrant::engine {
namespace {

absl::StatusOr<int32_t> TokenId(const JsonNode& json) {
  const absl::StatusOr<int64_t> id = json.AsInt();
  if (!id.ok()) return id.status();
  if (*id < 0 || *id >= Vocabulary::kMaxTokens) return json.Invalid("not a token id");
  return static_cast<int32_t>(*id);
}

// What {"special_tokens": {NAME: {"ids": [...]}}} of `json` has for a name.
absl::Status AppendSpecialToken(const JsonNode& json, std::string_view name,
                                std::vector<int32_t>& ids) {
  const absl::StatusOr<JsonNode> table = json.Member("special_tokens");
  if (!table.ok()) return table.status();
  const absl::StatusOr<JsonNode> entry = table->Member(name);
  if (!entry.ok()) return entry.status();
  const absl::StatusOr<JsonNode> ids_json = entry->Member("ids");
  if (!ids_json.ok()) return ids_json.status();
  const absl::StatusOr<std::vector<JsonNode>> items = ids_json->AsArray();
  if (!items.ok()) return items.status();
  for (const JsonNode& item : *items) {
    const absl::StatusOr<int32_t> id = TokenId(item);
    if (!id.ok()) return id.status();
    ids.push_back(*id);
  }
  return absl::OkStatus();
}

absl::StatusOr<PostProcessor> TemplateFromJson(const JsonNode& json) {
  const absl::StatusOr<JsonNode> single = json.Member("single");
  if (!single.ok()) return single.status();
  const absl::StatusOr<std::vector<JsonNode>> items = single->AsArray();
  if (!items.ok()) return items.status();
  PostProcessor processor;
  bool text_seen = false;
  for (const JsonNode& item : *items) {
    if (item.Find("Sequence")) {
      if (text_seen) return single->Unsupported("a template that holds the text twice");
      text_seen = true;
      continue;
    }
    const absl::StatusOr<JsonNode> token = item.Member("SpecialToken");
    if (!token.ok()) return token.status();
    const absl::StatusOr<std::string> name = token->String("id");
    if (!name.ok()) return name.status();
    const absl::Status appended =
        AppendSpecialToken(json, *name, text_seen ? processor.suffix : processor.prefix);
    if (!appended.ok()) return appended;
  }
  if (!text_seen) return single->Unsupported("a template without the text");
  return processor;
}

// Bert's and Roberta's: "cls": [token, id] before the text, "sep" after it.
absl::StatusOr<PostProcessor> ClsSepFromJson(const JsonNode& json) {
  PostProcessor processor;
  for (const auto& [key, ids] :
       {std::make_pair("cls", &processor.prefix), std::make_pair("sep", &processor.suffix)}) {
    const absl::StatusOr<JsonNode> member = json.Member(key);
    if (!member.ok()) return member.status();
    const absl::StatusOr<std::vector<JsonNode>> pair = member->AsArray();
    if (!pair.ok()) return pair.status();
    if (pair->size() != 2) return member->Invalid("not a token and its id");
    const absl::StatusOr<int32_t> id = TokenId((*pair)[1]);
    if (!id.ok()) return id.status();
    ids->push_back(*id);
  }
  return processor;
}

absl::StatusOr<PostProcessor> SequenceFromJson(const JsonNode& json) {
  const absl::StatusOr<JsonNode> member = json.Member("processors");
  if (!member.ok()) return member.status();
  const absl::StatusOr<std::vector<JsonNode>> items = member->AsArray();
  if (!items.ok()) return items.status();
  PostProcessor all;
  for (const JsonNode& item : *items) {
    const absl::StatusOr<PostProcessor> outer = PostProcessor::FromJson(item);
    if (!outer.ok()) return outer.status();
    all.prefix.insert(all.prefix.begin(), outer->prefix.begin(), outer->prefix.end());
    all.suffix.insert(all.suffix.end(), outer->suffix.begin(), outer->suffix.end());
  }
  return all;
}

}  // namespace

absl::StatusOr<PostProcessor> PostProcessor::FromJson(const JsonNode& json) {
  const absl::StatusOr<std::string> type = json.String("type");
  if (!type.ok()) return type.status();
  if (*type == "TemplateProcessing") return TemplateFromJson(json);
  if (*type == "Sequence") return SequenceFromJson(json);
  if (*type == "ByteLevel") return PostProcessor{};
  if (*type == "RobertaProcessing" || *type == "BertProcessing") return ClsSepFromJson(json);
  return json.Unsupported(absl::StrCat("post-processor ", *type));
}

}  // namespace hydrant::engine
