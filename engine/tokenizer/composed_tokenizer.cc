#include "engine/tokenizer/composed_tokenizer.h"

#include <algorithm>
#include <utility>

#include "engine/tokenizer/utf8.h"

namespace hydrant::engine {

class ComposedTokenizer::Stream : public DecodeStream {
 public:
  Stream(const ComposedTokenizer& tokenizer, bool skip_special_tokens, bool mid_text)
      : tokenizer_(tokenizer),
        skip_special_tokens_(skip_special_tokens),
        stage_(tokenizer.parts_.decoder->Start(mid_text)) {}

  std::string Add(int32_t id) override {
    const std::string* token = tokenizer_.StringOf(id);
    if (!token || (skip_special_tokens_ && tokenizer_.specials_.contains(*token))) return {};
    stage_->Push({*token}, parts_);
    return Take();
  }

  std::string Flush() override {
    stage_->Finish(parts_);
    return Take();
  }

 private:
  std::string Take() {
    std::string text;
    for (const TokenPart& part : parts_) text += part.text;
    parts_.clear();
    return text;
  }

  const ComposedTokenizer& tokenizer_;
  const bool skip_special_tokens_;
  std::unique_ptr<DecodeStage> stage_;
  std::vector<TokenPart> parts_;
};

ComposedTokenizer::ComposedTokenizer(TokenizerComponents parts, AddedTokenFinder raw,
                                     AddedTokenFinder normalized,
                                     absl::flat_hash_map<int32_t, AddedEntry> added,
                                     absl::flat_hash_set<std::string> specials)
    : parts_(std::move(parts)),
      raw_finder_(std::move(raw)),
      normalized_finder_(std::move(normalized)),
      added_(std::move(added)),
      specials_(std::move(specials)),
      vocab_size_(parts_.model->vocabulary().size()) {
  for (const auto& [id, entry] : added_) vocab_size_ = std::max(vocab_size_, id + 1);
}

absl::StatusOr<std::unique_ptr<Tokenizer>> ComposedTokenizer::Create(TokenizerComponents parts) {
  absl::flat_hash_map<int32_t, AddedToken> last;  // of those with one id the last counts
  absl::flat_hash_map<std::string_view, int32_t> given;
  int32_t highest = -1;
  for (AddedToken& token : parts.added_tokens) {
    // As Hugging Face numbers them: the id of the list does not count, since the model's own id
    // comes first and then the next one that is free.
    const Vocabulary& vocabulary = parts.model->vocabulary();
    const auto known = given.find(token.content);
    token.id =
        known != given.end()
            ? known->second
            : vocabulary.Find(token.content).value_or(std::max(highest + 1, vocabulary.count()));
    given.emplace(token.content, token.id);
    highest = std::max(highest, token.id);
    last.insert_or_assign(token.id, token);
  }
  std::vector<AddedToken> raw, normalized;
  std::vector<std::string> raw_patterns, normalized_patterns;
  absl::flat_hash_map<int32_t, AddedEntry> added;
  absl::flat_hash_set<std::string> specials;
  for (const auto& [id, token] : last) {
    std::string pattern = token.content;
    if (token.normalized && parts.normalizer) pattern = parts.normalizer->Normalize(pattern);
    added.emplace(id, AddedEntry{pattern, token.special});
    if (token.special) specials.insert(token.content);
    (token.normalized ? normalized : raw).push_back(token);
    (token.normalized ? normalized_patterns : raw_patterns).push_back(std::move(pattern));
  }
  absl::StatusOr<AddedTokenFinder> raw_finder =
      AddedTokenFinder::Create(std::move(raw), raw_patterns);
  if (!raw_finder.ok()) return raw_finder.status();
  absl::StatusOr<AddedTokenFinder> normalized_finder =
      AddedTokenFinder::Create(std::move(normalized), normalized_patterns);
  if (!normalized_finder.ok()) return normalized_finder.status();
  return std::unique_ptr<Tokenizer>(new ComposedTokenizer(std::move(parts), *std::move(raw_finder),
                                                          *std::move(normalized_finder),
                                                          std::move(added), std::move(specials)));
}

std::vector<int32_t> ComposedTokenizer::Encode(std::string_view text,
                                               bool add_special_tokens) const {
  std::string repaired;
  if (!IsValidUtf8(text)) {
    repaired = ToValidUtf8(text);
    text = repaired;
  }
  std::vector<int32_t> ids;
  ids.reserve(text.size() / 3 + 2);
  const PostProcessor& around = parts_.post_processor;
  if (add_special_tokens) ids.insert(ids.end(), around.prefix.begin(), around.prefix.end());
  for (const AddedTokenFinder::Part& part : raw_finder_.Split(text)) {
    if (part.id) {
      ids.push_back(*part.id);
    } else {
      EncodeBetweenAdded(part.text, part.text.data() == text.data(), ids);
    }
  }
  if (add_special_tokens) ids.insert(ids.end(), around.suffix.begin(), around.suffix.end());
  return ids;
}

void ComposedTokenizer::EncodeBetweenAdded(std::string_view text, bool at_start,
                                           std::vector<int32_t>& ids) const {
  std::string normalized(text);
  if (parts_.normalizer) normalized = parts_.normalizer->Normalize(std::move(normalized));
  for (const AddedTokenFinder::Part& part : normalized_finder_.Split(normalized)) {
    if (part.id) {
      ids.push_back(*part.id);
    } else {
      EncodeNormalized(part.text, at_start && part.text.data() == normalized.data(), ids);
    }
  }
}

void ComposedTokenizer::EncodeNormalized(std::string_view text, bool at_start,
                                         std::vector<int32_t>& ids) const {
  Pieces pieces(std::string(text), at_start);
  if (parts_.pre_tokenizer) parts_.pre_tokenizer->Apply(pieces);
  parts_.model->Tokenize(pieces, ids);
}

const std::string* ComposedTokenizer::StringOf(int32_t id) const {
  const auto added = added_.find(id);
  if (added != added_.end()) return &added->second.text;
  return parts_.model->vocabulary().TokenOf(id);
}

std::string ComposedTokenizer::Decode(std::span<const int32_t> ids,
                                      bool skip_special_tokens) const {
  Stream stream(*this, skip_special_tokens, /*mid_text=*/false);
  std::string text;
  for (const int32_t id : ids) text += stream.Add(id);
  return text + stream.Flush();
}

std::string ComposedTokenizer::TokenText(int32_t id) const {
  Stream stream(*this, /*skip_special_tokens=*/false, /*mid_text=*/true);
  std::string text = stream.Add(id);
  return text + stream.Flush();
}

bool ComposedTokenizer::IsSpecial(int32_t id) const {
  const auto added = added_.find(id);
  return added != added_.end() && added->second.special;
}

std::unique_ptr<DecodeStream> ComposedTokenizer::StartDecoding(bool skip_special_tokens) const {
  return std::make_unique<Stream>(*this, skip_special_tokens, /*mid_text=*/false);
}

}  // namespace hydrant::engine
