// tokenizer.json's model of type BPE.

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/tokenizer/bpe.h"

namespace hydrant::engine {
namespace {

// "left right", or ["left", "right"].
absl::StatusOr<std::pair<std::string, std::string>> MergeFromJson(const JsonNode& json) {
  if (json.IsString()) {
    const std::string text = *json.AsString();
    const size_t space = text.find(' ');
    if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
      return json.Invalid("not two tokens with a space between them");
    }
    return std::make_pair(text.substr(0, space), text.substr(space + 1));
  }
  const absl::StatusOr<std::vector<JsonNode>> parts = json.AsArray();
  if (!parts.ok() || parts->size() != 2) return json.Invalid("not a pair of tokens");
  absl::StatusOr<std::string> left = (*parts)[0].AsString();
  if (!left.ok()) return left.status();
  absl::StatusOr<std::string> right = (*parts)[1].AsString();
  if (!right.ok()) return right.status();
  return std::make_pair(*std::move(left), *std::move(right));
}

// No dropout, or one that never happens.
absl::Status CheckSupported(const JsonNode& json) {
  const std::optional<JsonNode> dropout = json.Find("dropout");
  if (!dropout) return absl::OkStatus();
  const absl::StatusOr<double> probability = dropout->AsNumber();
  if (!probability.ok()) return probability.status();
  return *probability == 0 ? absl::OkStatus() : json.Unsupported("BPE with dropout");
}

absl::StatusOr<BpeOptions> OptionsFromJson(const JsonNode& json, const Vocabulary& vocabulary) {
  BpeOptions options;
  if (json.Find("unk_token")) {
    const absl::StatusOr<std::string> token = json.String("unk_token");
    if (!token.ok()) return token.status();
    options.unk_id = vocabulary.Find(*token);
  }
  for (const auto& [name, affix] :
       {std::make_pair("continuing_subword_prefix", &options.continuing_subword_prefix),
        std::make_pair("end_of_word_suffix", &options.end_of_word_suffix)}) {
    if (!json.Find(name)) continue;
    absl::StatusOr<std::string> value = json.String(name);
    if (!value.ok()) return value.status();
    *affix = *std::move(value);
  }
  for (const auto& [name, option] : {std::make_pair("fuse_unk", &options.fuse_unk),
                                     std::make_pair("byte_fallback", &options.byte_fallback),
                                     std::make_pair("ignore_merges", &options.ignore_merges)}) {
    const absl::StatusOr<bool> value = json.Bool(name, false);
    if (!value.ok()) return value.status();
    *option = *value;
  }
  return options;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Bpe>> Bpe::FromJson(const JsonNode& json) {
  const absl::Status supported = CheckSupported(json);
  if (!supported.ok()) return supported;
  absl::StatusOr<Vocabulary> vocabulary = VocabularyFromJson(json);
  if (!vocabulary.ok()) return vocabulary.status();
  const absl::StatusOr<BpeOptions> options = OptionsFromJson(json, *vocabulary);
  if (!options.ok()) return options.status();

  const absl::StatusOr<JsonNode> merges_json = json.Member("merges");
  if (!merges_json.ok()) return merges_json.status();
  const absl::StatusOr<std::vector<JsonNode>> items = merges_json->AsArray();
  if (!items.ok()) return items.status();
  std::vector<std::pair<std::string, std::string>> pairs;
  pairs.reserve(items->size());
  for (const JsonNode& item : *items) {
    absl::StatusOr<std::pair<std::string, std::string>> merge = MergeFromJson(item);
    if (!merge.ok()) return merge.status();
    pairs.push_back(*std::move(merge));
  }
  absl::StatusOr<std::unique_ptr<Bpe>> bpe =
      Create(*std::move(vocabulary), std::vector<Merge>(pairs.begin(), pairs.end()), *options);
  if (!bpe.ok()) return merges_json->Invalid(std::string(bpe.status().message()));
  return bpe;
}

}  // namespace hydrant::engine
