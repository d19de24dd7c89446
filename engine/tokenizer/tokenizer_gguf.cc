// Tokenizer::FromGguf: the keys "tokenizer.ggml.*" (ggml/docs/gguf.md).

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/tokenizer/bpe.h"
#include "engine/tokenizer/charsmap.h"
#include "engine/tokenizer/composed_tokenizer.h"
#include "engine/tokenizer/gguf_pre_tokenizers.h"
#include "engine/tokenizer/unigram.h"
#include "engine/tokenizer/utf8.h"
#include "engine/weights/gguf.h"

namespace hydrant::engine {
namespace {

using weights::GgufFile;

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

// Special tokens by the names that chat templates know them by.
absl::Status ReadNamedTokens(const GgufFile& file, TokenizerComponents& parts) {
  const Vocabulary& vocabulary = parts.model->vocabulary();
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"tokenizer.ggml.bos_token_id", "bos_token"},
      {"tokenizer.ggml.eos_token_id", "eos_token"},
      {"tokenizer.ggml.unknown_token_id", "unk_token"},
      {"tokenizer.ggml.padding_token_id", "pad_token"},
  };
  for (const auto& [key, name] : kNames) {
    const absl::StatusOr<std::optional<int32_t>> id = ReadTokenId(file, key, vocabulary.size());
    if (!id.ok()) return id.status();
    if (*id) parts.named_tokens.emplace_back(name, *vocabulary.TokenOf(**id));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> FlagOr(const GgufFile& file, std::string_view key, bool absent) {
  const absl::StatusOr<std::optional<bool>> flag = file.Bool(key);
  if (!flag.ok()) return flag.status();
  return flag->value_or(absent);
}

absl::StatusOr<std::vector<double>> ReadScores(const GgufFile& file, int32_t vocab_size) {
  constexpr std::string_view kKey = "tokenizer.ggml.scores";
  absl::StatusOr<std::optional<std::vector<double>>> scores = file.Floats(kKey);
  if (!scores.ok()) return scores.status();
  if (!*scores) return Error(file, kKey, "is missing");
  if ((*scores)->size() != static_cast<size_t>(vocab_size)) {
    return Error(file, kKey,
                 absl::StrCat("has ", (*scores)->size(), " elements for ", vocab_size, " tokens"));
  }
  for (const double score : **scores) {
    if (std::isnan(score)) return Error(file, kKey, "has an element that is not a number");
  }
  return **std::move(scores);
}

// The merges that a SentencePiece vocabulary stands for, as Hugging Face's converter finds them:
// every way to put a token together from two, by falling score of the whole, then by falling
// length, in characters, of the parts.
std::vector<Bpe::Merge> MergesOfScores(const Vocabulary& vocabulary,
                                       const std::vector<double>& scores) {
  struct Split {
    double score;
    int32_t left_length, right_length;
    int32_t left, right;
    Bpe::Merge merge;
  };
  std::vector<Split> splits;
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    const std::string_view token = *vocabulary.TokenOf(id);
    if (!IsValidUtf8(token) || vocabulary.Find(token) != id) continue;
    std::vector<size_t> begins;  // of characters
    for (size_t at = 0; at < token.size(); at += Utf8Length(token[at])) begins.push_back(at);
    const size_t first = splits.size();
    for (size_t i = 1; i < begins.size(); ++i) {
      const Bpe::Merge merge(token.substr(0, begins[i]), token.substr(begins[i]));
      const std::optional<int32_t> left = vocabulary.Find(merge.first);
      const std::optional<int32_t> right = vocabulary.Find(merge.second);
      if (!left || !right) continue;
      splits.push_back({scores[id], static_cast<int32_t>(i),
                        static_cast<int32_t>(begins.size() - i), *left, *right, merge});
    }
    std::sort(splits.begin() + static_cast<ptrdiff_t>(first), splits.end(),
              [](const Split& a, const Split& b) {
                return std::tie(a.left, a.right) < std::tie(b.left, b.right);
              });
  }
  std::stable_sort(splits.begin(), splits.end(), [](const Split& a, const Split& b) {
    return std::tie(a.score, a.left_length, a.right_length) >
           std::tie(b.score, b.left_length, b.right_length);
  });
  std::vector<Bpe::Merge> merges;
  merges.reserve(splits.size());
  for (const Split& split : splits) merges.push_back(split.merge);
  return merges;
}

constexpr std::string_view kVisibleSpace = "\u2581";

// GPT-2's kind: bytes spelled as characters, merges in a list.
absl::Status LoadByteLevel(const GgufFile& file, Vocabulary vocabulary,
                           TokenizerComponents& parts) {
  constexpr std::string_view kPreKey = "tokenizer.ggml.pre";
  const absl::StatusOr<std::optional<std::string_view>> pre = file.String(kPreKey);
  if (!pre.ok()) return pre.status();
  absl::StatusOr<GgufPreTokenizer> cut = PreTokenizerOfGgufName(pre->value_or(""));
  if (absl::IsNotFound(cut.status())) return Unsupported(file, kPreKey, **pre);
  if (!cut.ok()) return cut.status();
  const absl::StatusOr<std::vector<Bpe::Merge>> merges = ReadMerges(file);
  if (!merges.ok()) return merges.status();
  BpeOptions options;
  options.ignore_merges = cut->ignore_merges;
  absl::StatusOr<std::unique_ptr<Bpe>> bpe = Bpe::Create(std::move(vocabulary), *merges, options);
  if (!bpe.ok()) {
    return Error(file, "tokenizer.ggml.merges", std::string(bpe.status().message()));
  }
  parts.model = *std::move(bpe);
  if (cut->nfc) parts.normalizer = std::make_unique<NormalFormNormalizer>(NormalForm::kNfc);
  parts.pre_tokenizer = std::move(cut->pre_tokenizer);
  parts.decoder = Decoder::ByteLevel();
  return ReadSpecialIds(file, cut->add_bos, parts);
}

absl::StatusOr<std::optional<int32_t>> ReadUnknownId(const GgufFile& file,
                                                     const Vocabulary& vocabulary) {
  return ReadTokenId(file, "tokenizer.ggml.unknown_token_id", vocabulary.size());
}

// SentencePiece's BPE (Llama 1 and 2, Gemma …): spaces are visible, and what is no token becomes
// its bytes. `listed`: the merges are there; else the scores stand for them.
absl::Status LoadSentencePiece(const GgufFile& file, Vocabulary vocabulary, bool listed,
                               TokenizerComponents& parts) {
  const absl::StatusOr<bool> add_space =
      FlagOr(file, "tokenizer.ggml.add_space_prefix", /*absent=*/!listed);
  if (!add_space.ok()) return add_space.status();
  const absl::StatusOr<std::optional<int32_t>> unk_id = ReadUnknownId(file, vocabulary);
  if (!unk_id.ok()) return unk_id.status();
  BpeOptions options;
  options.unk_id = *unk_id;
  options.fuse_unk = true;
  options.byte_fallback = true;
  std::vector<Bpe::Merge> merges;
  if (listed) {
    absl::StatusOr<std::vector<Bpe::Merge>> read = ReadMerges(file);
    if (!read.ok()) return read.status();
    merges = *std::move(read);
  } else {
    const absl::StatusOr<std::vector<double>> scores = ReadScores(file, vocabulary.size());
    if (!scores.ok()) return scores.status();
    merges = MergesOfScores(vocabulary, *scores);
  }
  absl::StatusOr<std::unique_ptr<Bpe>> bpe = Bpe::Create(std::move(vocabulary), merges, options);
  if (!bpe.ok()) {
    return Error(file, "tokenizer.ggml.merges", std::string(bpe.status().message()));
  }
  parts.model = *std::move(bpe);
  std::vector<std::unique_ptr<Normalizer>> steps;
  if (*add_space) steps.push_back(std::make_unique<PrependNormalizer>(std::string(kVisibleSpace)));
  steps.push_back(
      std::make_unique<ReplaceNormalizer>(TextPattern::Literal(" "), std::string(kVisibleSpace)));
  parts.normalizer = std::make_unique<NormalizerSequence>(std::move(steps));
  parts.decoder = Decoder::SentencePiece(*add_space);
  return ReadSpecialIds(file, /*add_bos_by_default=*/true, parts);
}

// SentencePiece's unigram model (T5).
absl::Status LoadUnigram(const GgufFile& file, Vocabulary vocabulary, TokenizerComponents& parts) {
  constexpr std::string_view kCharsmap = "tokenizer.ggml.precompiled_charsmap";
  absl::StatusOr<std::vector<double>> scores = ReadScores(file, vocabulary.size());
  if (!scores.ok()) return scores.status();
  const absl::StatusOr<std::optional<int32_t>> unk_id = ReadUnknownId(file, vocabulary);
  if (!unk_id.ok()) return unk_id.status();
  Unigram::Options options;
  options.unk_id = *unk_id;
  absl::StatusOr<std::unique_ptr<Unigram>> unigram =
      Unigram::Create(std::move(vocabulary), *std::move(scores), options);
  if (!unigram.ok()) {
    return Error(file, "tokenizer.ggml.tokens", std::string(unigram.status().message()));
  }
  parts.model = *std::move(unigram);

  std::vector<std::unique_ptr<Normalizer>> steps;
  const absl::StatusOr<std::optional<std::vector<int64_t>>> charsmap = file.Ints(kCharsmap);
  if (!charsmap.ok()) return charsmap.status();
  if (*charsmap && !(*charsmap)->empty()) {
    std::string bytes;
    for (const int64_t byte : **charsmap) bytes += static_cast<char>(byte);
    auto made = CharsmapNormalizer::Create(bytes);
    if (!made.ok()) return Error(file, kCharsmap, std::string(made.status().message()));
    steps.push_back(*std::move(made));
  }
  steps.push_back(std::make_unique<StripNormalizer>(/*left=*/false, /*right=*/true));
  absl::StatusOr<TextPattern> spaces = TextPattern::Regexp(" {2,}");
  if (!spaces.ok()) return spaces.status();
  steps.push_back(
      std::make_unique<ReplaceNormalizer>(*std::move(spaces), std::string(kVisibleSpace)));
  parts.normalizer = std::make_unique<NormalizerSequence>(std::move(steps));
  const absl::StatusOr<bool> add_space =
      FlagOr(file, "tokenizer.ggml.add_space_prefix", /*absent=*/true);
  if (!add_space.ok()) return add_space.status();
  parts.pre_tokenizer = std::make_unique<MetaspacePreTokenizer>(
      std::string(kVisibleSpace),
      *add_space ? MetaspacePreTokenizer::Prepend::kAlways : MetaspacePreTokenizer::Prepend::kNever,
      /*split=*/true);
  parts.decoder = Decoder::Metaspace(std::string(kVisibleSpace), *add_space);
  return ReadSpecialIds(file, /*add_bos_by_default=*/false, parts);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::FromGguf(const GgufFile& file) {
  constexpr std::string_view kModelKey = "tokenizer.ggml.model";
  const absl::StatusOr<std::string> model = RequiredString(file, kModelKey);
  if (!model.ok()) return model.status();
  if (*model != "gpt2" && *model != "llama" && *model != "gemma4" && *model != "t5") {
    return Unsupported(file, kModelKey, *model);
  }
  TokenizerComponents parts;
  absl::StatusOr<Vocabulary> vocabulary = ReadVocabulary(file);
  if (!vocabulary.ok()) return vocabulary.status();
  absl::StatusOr<std::vector<AddedToken>> added = ReadAddedTokens(file, *vocabulary);
  if (!added.ok()) return added.status();
  parts.added_tokens = *std::move(added);
  const absl::Status loaded = *model == "gpt2" ? LoadByteLevel(file, *std::move(vocabulary), parts)
                              : *model == "t5"
                                  ? LoadUnigram(file, *std::move(vocabulary), parts)
                                  : LoadSentencePiece(file, *std::move(vocabulary),
                                                      /*listed=*/*model == "gemma4", parts);
  if (!loaded.ok()) return loaded;
  if (absl::Status named = ReadNamedTokens(file, parts); !named.ok()) return named;
  return ComposedTokenizer::Create(std::move(parts));
}

}  // namespace hydrant::engine
