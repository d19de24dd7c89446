// Tokenizer::FromGguf: the keys "tokenizer.ggml.*" (ggml/docs/gguf.md, and llama.cpp's
// llama-vocab.cpp for what the names of pre-tokenizers stand for).

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/tokenizer/bpe.h"
#include "engine/tokenizer/composed_tokenizer.h"
#include "engine/weights/gguf.h"

namespace hydrant::engine {
namespace {

using weights::GgufFile;
using Result = absl::StatusOr<std::unique_ptr<PreTokenizer>>;

constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// "tokenizer.ggml.token_type".
enum TokenType { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4 };

absl::string_view Absl(std::string_view text) { return {text.data(), text.size()}; }

absl::Status Error(const GgufFile& file, std::string_view key, std::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(file.path(), ": ", Absl(key), ": ", Absl(why)));
}

absl::Status Unsupported(const GgufFile& file, std::string_view key, std::string_view value) {
  return absl::UnimplementedError(
      absl::StrCat(file.path(), ": ", Absl(key), " '", Absl(value), "' is not supported"));
}

enum class Cut { kGpt2, kDigitsThenGpt2, kLlama3 };

// What llama.cpp knows a "tokenizer.ggml.pre" to be.
std::optional<Cut> CutOfName(std::string_view pre) {
  struct Name {
    std::string_view pre;
    Cut cut;
  };
  static constexpr Name kNames[] = {
      {"gpt-2", Cut::kGpt2},
      {"phi-2", Cut::kGpt2},
      {"smollm", Cut::kDigitsThenGpt2},
      {"starcoder", Cut::kDigitsThenGpt2},
      {"refact", Cut::kDigitsThenGpt2},
      {"llama-bpe", Cut::kLlama3},
      {"llama-v3", Cut::kLlama3},
      {"llama3", Cut::kLlama3},
  };
  for (const Name& name : kNames) {
    if (name.pre == pre) return name.cut;
  }
  return std::nullopt;
}

Result MakePreTokenizer(Cut cut) {
  std::vector<std::unique_ptr<PreTokenizer>> steps;
  if (cut != Cut::kGpt2) {
    absl::StatusOr<TextPattern> pattern =
        TextPattern::Regexp(cut == Cut::kLlama3 ? kLlama3Pattern : R"(\p{N})");
    if (!pattern.ok()) return pattern.status();
    steps.push_back(std::make_unique<SplitPreTokenizer>(
        *std::move(pattern), SplitBehavior::kIsolated, /*invert=*/false));
  }
  Result byte_level = ByteLevelPreTokenizer::Create(/*add_prefix_space=*/false,
                                                    /*use_regex=*/cut != Cut::kLlama3);
  if (!byte_level.ok()) return byte_level.status();
  steps.push_back(*std::move(byte_level));
  return std::make_unique<PreTokenizerSequence>(std::move(steps));
}

absl::StatusOr<Vocabulary> ReadVocabulary(const GgufFile& file) {
  constexpr std::string_view kKey = "tokenizer.ggml.tokens";
  const absl::StatusOr<std::optional<std::vector<std::string_view>>> strings = file.Strings(kKey);
  if (!strings.ok()) return strings.status();
  if (!*strings) return Error(file, kKey, "is missing");
  std::vector<std::pair<std::string, int64_t>> tokens;
  tokens.reserve((*strings)->size());
  for (const std::string_view token : **strings) tokens.emplace_back(token, tokens.size());
  absl::StatusOr<Vocabulary> vocabulary = Vocabulary::Create(std::move(tokens));
  if (!vocabulary.ok()) return Error(file, kKey, std::string(vocabulary.status().message()));
  return vocabulary;
}

// "left right"; a token may itself begin with a space, but not be empty.
absl::StatusOr<std::vector<Bpe::Merge>> ReadMerges(const GgufFile& file) {
  constexpr std::string_view kKey = "tokenizer.ggml.merges";
  const absl::StatusOr<std::optional<std::vector<std::string_view>>> strings = file.Strings(kKey);
  if (!strings.ok()) return strings.status();
  if (!*strings) return Error(file, kKey, "is missing");
  std::vector<Bpe::Merge> merges;
  merges.reserve((*strings)->size());
  for (const std::string_view text : **strings) {
    const size_t space = text.find(' ', 1);
    if (space == std::string_view::npos || space + 1 == text.size()) {
      return Error(
          file, kKey,
          absl::StrCat("element ", merges.size(), " is not two tokens with a space between"));
    }
    merges.emplace_back(text.substr(0, space), text.substr(space + 1));
  }
  return merges;
}

absl::StatusOr<std::vector<AddedToken>> ReadAddedTokens(const GgufFile& file,
                                                        const Vocabulary& vocabulary) {
  constexpr std::string_view kKey = "tokenizer.ggml.token_type";
  std::vector<AddedToken> added;
  const absl::StatusOr<std::optional<std::vector<int64_t>>> types = file.Ints(kKey);
  if (!types.ok()) return types.status();
  if (!*types) return added;
  if ((*types)->size() != static_cast<size_t>(vocabulary.size())) {
    return Error(
        file, kKey,
        absl::StrCat("has ", (*types)->size(), " elements for ", vocabulary.size(), " tokens"));
  }
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    const int64_t type = (**types)[id];
    if (type != kUnknown && type != kControl && type != kUserDefined) continue;
    AddedToken token;
    token.id = id;
    token.content = *vocabulary.TokenOf(id);
    token.special = type != kUserDefined;
    added.push_back(std::move(token));
  }
  return added;
}

// A key that holds a token's id; nullopt when absent.
absl::StatusOr<std::optional<int32_t>> ReadTokenId(const GgufFile& file, std::string_view key,
                                                   int32_t vocab_size) {
  const absl::StatusOr<std::optional<int64_t>> id = file.Int(key);
  if (!id.ok()) return id.status();
  if (!*id) return std::nullopt;
  if (**id < 0 || **id >= vocab_size) {
    return Error(file, key, absl::StrCat(**id, " is no token: there are ", vocab_size));
  }
  return static_cast<int32_t>(**id);
}

// Sets `ids` to the token under `id_key` if "tokenizer.ggml.add_…_token" asks for it.
absl::Status ReadAround(const GgufFile& file, std::string_view add_key, bool absent,
                        std::string_view id_key, std::optional<int32_t> id,
                        std::vector<int32_t>& ids) {
  const absl::StatusOr<std::optional<bool>> add = file.Bool(add_key);
  if (!add.ok()) return add.status();
  if (!add->value_or(absent)) return absl::OkStatus();
  if (!id) return Error(file, id_key, absl::StrCat("is missing, but ", Absl(add_key), " is set"));
  ids.push_back(*id);
  return absl::OkStatus();
}

absl::Status ReadSpecialIds(const GgufFile& file, bool add_bos_by_default,
                            TokenizerComponents& parts) {
  constexpr std::string_view kBos = "tokenizer.ggml.bos_token_id";
  constexpr std::string_view kEos = "tokenizer.ggml.eos_token_id";
  const int32_t vocab_size = parts.model->vocabulary().size();
  const absl::StatusOr<std::optional<int32_t>> bos = ReadTokenId(file, kBos, vocab_size);
  if (!bos.ok()) return bos.status();
  parts.bos_id = *bos;
  std::optional<int32_t> eos;
  for (const std::string_view key : {kEos, std::string_view("tokenizer.ggml.eot_token_id"),
                                     std::string_view("tokenizer.ggml.eom_token_id")}) {
    const absl::StatusOr<std::optional<int32_t>> id = ReadTokenId(file, key, vocab_size);
    if (!id.ok()) return id.status();
    if (!*id) continue;
    if (key == kEos) eos = *id;
    if (std::find(parts.eos_ids.begin(), parts.eos_ids.end(), **id) == parts.eos_ids.end()) {
      parts.eos_ids.push_back(**id);
    }
  }
  const absl::Status prefix = ReadAround(file, "tokenizer.ggml.add_bos_token", add_bos_by_default,
                                         kBos, parts.bos_id, parts.post_processor.prefix);
  if (!prefix.ok()) return prefix;
  return ReadAround(file, "tokenizer.ggml.add_eos_token", /*absent=*/false, kEos, eos,
                    parts.post_processor.suffix);
}

absl::StatusOr<std::string> RequiredString(const GgufFile& file, std::string_view key) {
  const absl::StatusOr<std::optional<std::string_view>> value = file.String(key);
  if (!value.ok()) return value.status();
  if (!*value) return Error(file, key, "is missing");
  return std::string(**value);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::FromGguf(const GgufFile& file) {
  constexpr std::string_view kModelKey = "tokenizer.ggml.model";
  constexpr std::string_view kPreKey = "tokenizer.ggml.pre";
  const absl::StatusOr<std::string> model_name = RequiredString(file, kModelKey);
  if (!model_name.ok()) return model_name.status();
  if (*model_name != "gpt2") return Unsupported(file, kModelKey, *model_name);
  const absl::StatusOr<std::string> pre = RequiredString(file, kPreKey);
  if (!pre.ok()) return pre.status();
  const std::optional<Cut> cut = CutOfName(*pre);
  if (!cut) return Unsupported(file, kPreKey, *pre);

  TokenizerComponents parts;
  absl::StatusOr<Vocabulary> vocabulary = ReadVocabulary(file);
  if (!vocabulary.ok()) return vocabulary.status();
  absl::StatusOr<std::vector<AddedToken>> added = ReadAddedTokens(file, *vocabulary);
  if (!added.ok()) return added.status();
  parts.added_tokens = *std::move(added);
  const absl::StatusOr<std::vector<Bpe::Merge>> merges = ReadMerges(file);
  if (!merges.ok()) return merges.status();
  BpeOptions options;
  options.ignore_merges = *cut == Cut::kLlama3;  // as in Llama 3's tokenizer.json
  absl::StatusOr<std::unique_ptr<Bpe>> bpe = Bpe::Create(*std::move(vocabulary), *merges, options);
  if (!bpe.ok()) {
    return Error(file, "tokenizer.ggml.merges", std::string(bpe.status().message()));
  }
  parts.model = *std::move(bpe);
  Result pre_tokenizer = MakePreTokenizer(*cut);
  if (!pre_tokenizer.ok()) return pre_tokenizer.status();
  parts.pre_tokenizer = *std::move(pre_tokenizer);
  parts.decoder = Decoder::ByteLevel();
  const absl::Status special =
      ReadSpecialIds(file, /*add_bos_by_default=*/*cut == Cut::kLlama3, parts);
  if (!special.ok()) return special;
  return ComposedTokenizer::Create(std::move(parts));
}

}  // namespace hydrant::engine
