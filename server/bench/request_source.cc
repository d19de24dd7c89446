#include "server/bench/request_source.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"

namespace hydrant::server::bench {
namespace {

// FNV-1a.
uint64_t Hash(std::string_view text) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (const unsigned char c : text) hash = (hash ^ c) * 0x100000001B3u;
  return hash;
}

void AddRandomTokens(const Vocabulary& vocabulary, int32_t count, Random random,
                     v1::TokenIds& ids) {
  for (int32_t i = 0; i < count; ++i) ids.add_ids(vocabulary.Draw(random));
}

// The request but for its input; `random` is the request's own.
v1::GenerateRequest Common(const RequestTemplate& common, Random& random) {
  v1::GenerateRequest request = common.message;
  request.mutable_stopping()->set_max_tokens(common.max_tokens.Draw(random));
  if (request.sampling().temperature() > 0) request.mutable_sampling()->set_seed(random.Next());
  return request;
}

class RandomSource final : public RequestSource {
 public:
  RandomSource(RequestTemplate common, Vocabulary vocabulary, Range prompt_tokens)
      : common_(std::move(common)),
        vocabulary_(std::move(vocabulary)),
        prompt_tokens_(prompt_tokens) {}

  v1::GenerateRequest Make(int64_t number) const override {
    Random random(common_.seed, number);
    v1::GenerateRequest request = Common(common_, random);
    const int32_t count = prompt_tokens_.Draw(random);
    AddRandomTokens(vocabulary_, count, random, *request.mutable_token_ids());
    return request;
  }

 private:
  const RequestTemplate common_;
  const Vocabulary vocabulary_;
  const Range prompt_tokens_;
};

// Which of `count` things request `number` gets.
size_t Cycle(int64_t number, size_t count) {
  const auto size = static_cast<int64_t>(count);
  return static_cast<size_t>(((number % size) + size) % size);
}

class CutSource final : public RequestSource {
 public:
  CutSource(RequestTemplate common, std::vector<uint32_t> tokens, std::vector<size_t> cuts)
      : common_(std::move(common)), tokens_(std::move(tokens)), cuts_(std::move(cuts)) {}

  v1::GenerateRequest Make(int64_t number) const override {
    Random random(common_.seed, number);
    v1::GenerateRequest request = Common(common_, random);
    const size_t piece = Cycle(number, cuts_.size() - 1);
    request.mutable_token_ids()->mutable_ids()->Add(tokens_.begin() + cuts_[piece],
                                                    tokens_.begin() + cuts_[piece + 1]);
    return request;
  }

 private:
  const RequestTemplate common_;
  const std::vector<uint32_t> tokens_;
  const std::vector<size_t> cuts_;  // piece i: from cuts_[i] to cuts_[i + 1]
};

class TraceSource final : public RequestSource {
 public:
  TraceSource(RequestTemplate common, Vocabulary vocabulary, std::vector<TraceRequest> trace)
      : common_(std::move(common)), vocabulary_(std::move(vocabulary)), trace_(std::move(trace)) {}

  v1::GenerateRequest Make(int64_t number) const override {
    Random random(common_.seed, number);
    v1::GenerateRequest request = Common(common_, random);
    const TraceRequest& line = trace_[Cycle(number, trace_.size())];
    if (line.max_tokens) request.mutable_stopping()->set_max_tokens(*line.max_tokens);
    MergeEviction(line.eviction, *request.mutable_eviction());
    if (const auto* text = std::get_if<std::string>(&line.prompt)) {
      request.set_text(*text);
      return request;
    }
    v1::TokenIds& ids = *request.mutable_token_ids();
    if (const auto* given = std::get_if<std::vector<int32_t>>(&line.prompt)) {
      ids.mutable_ids()->Add(given->begin(), given->end());
      return request;
    }
    const RandomTokens& tokens = std::get<RandomTokens>(line.prompt);
    AddRandomTokens(vocabulary_, tokens.prefix_count, Random(common_.seed, Hash(tokens.prefix_id)),
                    ids);
    AddRandomTokens(vocabulary_, tokens.count - tokens.prefix_count, random, ids);
    return request;
  }

 private:
  static void MergeEviction(const v1::EvictionParams& line, v1::EvictionParams& eviction) {
    // FULL has no budget, so that of the flags does not go with it.
    if (line.policy() == v1::EvictionParams::FULL) eviction.Clear();
    eviction.MergeFrom(line);
  }

  const RequestTemplate common_;
  const Vocabulary vocabulary_;
  const std::vector<TraceRequest> trace_;
};

}  // namespace

absl::StatusOr<Vocabulary> Vocabulary::Make(int32_t size, std::vector<int32_t> without) {
  std::erase_if(without, [&](int32_t id) { return id < 0 || id >= size; });
  std::sort(without.begin(), without.end());
  without.erase(std::unique(without.begin(), without.end()), without.end());
  if (size - static_cast<int64_t>(without.size()) <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("a vocabulary of ", size, " tokens leaves none to draw prompts from"));
  }
  Vocabulary vocabulary;
  vocabulary.size_ = size;
  vocabulary.without_ = std::move(without);
  return vocabulary;
}

int32_t Vocabulary::Draw(Random& random) const {
  auto id = static_cast<int32_t>(random.Below(size_ - without_.size()));
  for (const int32_t left_out : without_) {
    if (id >= left_out) ++id;
  }
  return id;
}

std::unique_ptr<RequestSource> RandomPrompts(RequestTemplate common, Vocabulary vocabulary,
                                             Range prompt_tokens) {
  return std::make_unique<RandomSource>(std::move(common), std::move(vocabulary), prompt_tokens);
}

absl::StatusOr<std::unique_ptr<RequestSource>> CutPrompts(RequestTemplate common,
                                                          std::vector<uint32_t> tokens,
                                                          Range prompt_tokens) {
  Random random(common.seed, 0);
  std::vector<size_t> cuts = {0};
  for (;;) {
    const size_t next = cuts.back() + prompt_tokens.Draw(random);
    if (next > tokens.size()) break;
    cuts.push_back(next);
  }
  if (cuts.size() == 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(tokens.size(), " tokens of text are less than one prompt"));
  }
  return std::make_unique<CutSource>(std::move(common), std::move(tokens), std::move(cuts));
}

std::unique_ptr<RequestSource> TracePrompts(RequestTemplate common, Vocabulary vocabulary,
                                            std::vector<TraceRequest> trace) {
  return std::make_unique<TraceSource>(std::move(common), std::move(vocabulary), std::move(trace));
}

}  // namespace hydrant::server::bench
