// Tokenizer::FromDirectory: Hugging Face's tokenizer.json and tokenizer_config.json.

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/tokenizer/bpe.h"
#include "engine/tokenizer/composed_tokenizer.h"
#include "engine/tokenizer/json_node.h"
#include "engine/tokenizer/unigram.h"
#include "engine/tokenizer/word_models.h"

namespace hydrant::engine {
namespace {

absl::StatusOr<std::unique_ptr<TokenModel>> ModelFromJson(const JsonNode& root) {
  const absl::StatusOr<JsonNode> json = root.Member("model");
  if (!json.ok()) return json.status();
  // Files of early versions leave the type out; what has merges is BPE.
  std::string type = "BPE";
  if (json->Find("type") || !json->Find("merges")) {
    absl::StatusOr<std::string> given = json->String("type");
    if (!given.ok()) return given.status();
    type = *std::move(given);
  }
  if (type == "BPE") return Bpe::FromJson(*json);
  if (type == "Unigram") return Unigram::FromJson(*json);
  if (type == "WordPiece") return WordPiece::FromJson(*json);
  if (type == "WordLevel") return WordLevel::FromJson(*json);
  return json->Unsupported(absl::StrCat("model ", type));
}

absl::StatusOr<std::vector<AddedToken>> AddedTokensFromJson(const JsonNode& root) {
  std::vector<AddedToken> tokens;
  const std::optional<JsonNode> json = root.Find("added_tokens");
  if (!json) return tokens;
  const absl::StatusOr<std::vector<JsonNode>> items = json->AsArray();
  if (!items.ok()) return items.status();
  for (const JsonNode& item : *items) {
    absl::StatusOr<AddedToken> token = AddedToken::FromJson(item);
    if (!token.ok()) return token.status();
    if (!token->content.empty()) tokens.push_back(*std::move(token));
  }
  return tokens;
}

// Sets `part` from the member `key` of `root`, where there is one.
template <typename Component, typename Part>
absl::Status Load(const JsonNode& root, std::string_view key, Part& part) {
  const std::optional<JsonNode> json = root.Find(key);
  if (!json) return absl::OkStatus();
  auto made = Component::FromJson(*json);
  if (!made.ok()) return made.status();
  part = *std::move(made);
  return absl::OkStatus();
}

// A token as text, or as an object with "content".
absl::StatusOr<std::string> TokenContent(const JsonNode& json) {
  return json.IsObject() ? json.String("content") : json.AsString();
}

// The id of the token that tokenizer_config.json names under `key`, as text or as an object with
// "content"; nullopt where it names none or one that does not exist.
absl::StatusOr<std::optional<int32_t>> NamedToken(const JsonNode& config, std::string_view key,
                                                  const TokenizerComponents& parts) {
  const std::optional<JsonNode> json = config.Find(key);
  if (!json) return std::nullopt;
  const absl::StatusOr<std::string> content = TokenContent(*json);
  if (!content.ok()) return content.status();
  const std::optional<int32_t> id = parts.model->vocabulary().Find(*content);
  if (id) return id;
  for (const AddedToken& token : parts.added_tokens) {
    if (token.content == *content) return token.id;
  }
  return std::nullopt;
}

absl::Status LoadConfig(const std::string& path, TokenizerComponents& parts) {
  const absl::StatusOr<JsonNode> config = JsonNode::ReadFile(path);
  if (absl::IsNotFound(config.status())) return absl::OkStatus();
  if (!config.ok()) return config.status();
  for (const std::string_view key : {"bos_token", "eos_token", "unk_token", "sep_token",
                                     "pad_token", "cls_token", "mask_token"}) {
    const std::optional<JsonNode> json = config->Find(key);
    if (!json) continue;
    const absl::StatusOr<std::string> text = TokenContent(*json);
    if (!text.ok()) return text.status();
    parts.named_tokens.emplace_back(key, *text);
  }
  const absl::StatusOr<std::optional<int32_t>> bos = NamedToken(*config, "bos_token", parts);
  if (!bos.ok()) return bos.status();
  parts.bos_id = *bos;
  const absl::StatusOr<std::optional<int32_t>> eos = NamedToken(*config, "eos_token", parts);
  if (!eos.ok()) return eos.status();
  if (*eos) parts.eos_ids.push_back(**eos);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::FromDirectory(const std::string& path) {
  const absl::StatusOr<JsonNode> root = JsonNode::ReadFile(path + "/tokenizer.json");
  if (!root.ok()) return root.status();
  TokenizerComponents parts;
  absl::StatusOr<std::unique_ptr<TokenModel>> model = ModelFromJson(*root);
  if (!model.ok()) return model.status();
  parts.model = *std::move(model);
  absl::StatusOr<std::vector<AddedToken>> added_tokens = AddedTokensFromJson(*root);
  if (!added_tokens.ok()) return added_tokens.status();
  parts.added_tokens = *std::move(added_tokens);
  parts.decoder = Decoder::SpaceBetween();
  for (const absl::Status& loaded :
       {Load<Normalizer>(*root, "normalizer", parts.normalizer),
        Load<PreTokenizer>(*root, "pre_tokenizer", parts.pre_tokenizer),
        Load<PostProcessor>(*root, "post_processor", parts.post_processor),
        Load<Decoder>(*root, "decoder", parts.decoder),
        LoadConfig(path + "/tokenizer_config.json", parts)}) {
    if (!loaded.ok()) return loaded;
  }
  return ComposedTokenizer::Create(std::move(parts));
}

}  // namespace hydrant::engine
