// What eviction and smaller numbers cost in quality: perplexity of a text that is forced upon the
// decode, and whether a key that lies far back is found again. Runs the engine in this process.
//
// Reads one JSON object from standard input and prints one JSON object a line, in the order asked.
// quality.py beside this file writes the one and makes tables of the other.
//
//   engine      {model, weight_dtype, kv_cache_dtype, kv_cache_bytes, device, threads,
//               max_num_seqs}; only the model is required
//   evictions   [{name, policy, budget_tokens | budget_ratio, sink_tokens, recent_tokens, audit}];
//               fields as in the API's EvictionParams, the policy in lower case
//   perplexity  {prompt_tokens, answer_tokens, passages, texts: [{name, text}]}: of each text as
//               many passages as it has room for, that many at most, evenly spread
//   passkey     {prompt_tokens, max_tokens, depths: [0..1], keys: [number], filler: text}
//
// Either task may be left out. Exit code 1: something was refused; standard error says what.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <future>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/engine.h"
#include "engine/tokenizer/tokenizer.h"
#include "kernels/kv_store.h"

namespace hydrant::bench {
namespace {

using engine::Engine;
using engine::GenerateRequest;
using nlohmann::json;

struct Answer {
  engine::PromptInfo info;
  std::string text;
  std::vector<float> logprobs;  // of the answer's tokens
  engine::Finished finished;
};

class CollectingSink final : public engine::ResponseSink {
 public:
  std::future<absl::StatusOr<Answer>> answer() { return promise_.get_future(); }

  void OnPromptInfo(engine::PromptInfo info) override { answer_.info = std::move(info); }
  void OnDelta(engine::Delta delta) override {
    answer_.text += delta.text;
    for (const engine::TokenLogprobs& l : delta.logprobs) answer_.logprobs.push_back(*l.logprob);
  }
  void OnFinished(engine::Finished finished) override {
    answer_.finished = std::move(finished);
    promise_.set_value(std::move(answer_));
  }
  void OnError(absl::Status status) override { promise_.set_value(std::move(status)); }

 private:
  Answer answer_;
  std::promise<absl::StatusOr<Answer>> promise_;
};

// What is asked, and what its line of output says beside the answer's figures.
struct Task {
  GenerateRequest request;
  json line;
  std::string key;  // of a passkey task
};

// ---- reading ----

// Of the values of an enumeration that counts from 0 and gives "unknown" past its end.
template <typename Enum>
absl::StatusOr<Enum> ByName(std::string_view field, const std::string& wanted,
                            std::string_view (*name_of)(Enum)) {
  std::string known;
  for (int i = 0; name_of(static_cast<Enum>(i)) != "unknown"; ++i) {
    const std::string name(name_of(static_cast<Enum>(i)));
    if (name == wanted) return static_cast<Enum>(i);
    absl::StrAppend(&known, known.empty() ? "" : ", ", name);
  }
  return absl::InvalidArgumentError(
      absl::StrCat(std::string(field), " is one of ", known, ", got ", wanted));
}

std::string_view PolicyName(engine::EvictionPolicyKind policy) {
  switch (policy) {
    case engine::EvictionPolicyKind::kFull:
      return "full";
    case engine::EvictionPolicyKind::kWindow:
      return "window";
    case engine::EvictionPolicyKind::kStreaming:
      return "streaming";
    case engine::EvictionPolicyKind::kH2O:
      return "h2o";
  }
  return "unknown";
}

template <typename T>
void Read(const json& from, const char* name, std::optional<T>& target) {
  if (from.contains(name)) target = from.at(name).get<T>();
}

absl::StatusOr<engine::EngineOptions> ReadOptions(const json& spec) {
  engine::EngineOptions options;
  options.model_path = spec.at("model").get<std::string>();
  options.device = spec.value("device", options.device);
  options.threads = spec.value("threads", options.threads);
  options.kv_cache_bytes = spec.value("kv_cache_bytes", options.kv_cache_bytes);
  options.max_num_seqs = spec.value("max_num_seqs", options.max_num_seqs);
  if (spec.contains("weight_dtype") && spec.at("weight_dtype") != "auto") {
    const auto dtype = ByName("weight_dtype", spec.at("weight_dtype").get<std::string>(),
                              kernels::WeightDTypeName);
    if (!dtype.ok()) return dtype.status();
    options.weight_dtype = *dtype;
  }
  if (spec.contains("kv_cache_dtype")) {
    const auto dtype = ByName("kv_cache_dtype", spec.at("kv_cache_dtype").get<std::string>(),
                              kernels::KvDTypeName);
    if (!dtype.ok()) return dtype.status();
    options.kv_dtype = *dtype;
  }
  return options;
}

absl::StatusOr<engine::EvictionParams> ReadEviction(const json& spec) {
  const auto policy = ByName("policy", spec.at("policy").get<std::string>(), PolicyName);
  if (!policy.ok()) return policy.status();
  engine::EvictionParams eviction;
  eviction.policy = *policy;
  Read(spec, "budget_tokens", eviction.budget_tokens);
  Read(spec, "budget_ratio", eviction.budget_ratio);
  Read(spec, "sink_tokens", eviction.sink_tokens);
  Read(spec, "recent_tokens", eviction.recent_tokens);
  Read(spec, "audit", eviction.audit);
  return eviction;
}

// ---- tasks ----

// The prompt is one part of a text, the answer that is forced is the part after it.
absl::Status AddPerplexityTasks(const json& spec, const Engine& engine, std::vector<Task>* tasks) {
  const auto prompt_tokens = spec.at("prompt_tokens").get<int64_t>();
  const auto answer_tokens = spec.at("answer_tokens").get<int64_t>();
  const auto most_passages = spec.value("passages", int64_t{1});
  // What the tokenizer puts before any text.
  const std::vector<int32_t> prefix = engine.tokenizer().Encode("", /*add_special_tokens=*/true);
  const int64_t taken = prompt_tokens - static_cast<int64_t>(prefix.size()) + answer_tokens;
  if (prompt_tokens <= static_cast<int64_t>(prefix.size()) || answer_tokens < 1 ||
      most_passages < 1) {
    return absl::InvalidArgumentError(
        "perplexity: prompt_tokens, answer_tokens or passages too few");
  }
  for (const json& text : spec.at("texts")) {
    const auto name = text.at("name").get<std::string>();
    const std::vector<int32_t> ids = engine.tokenizer().Encode(
        text.at("text").get_ref<const std::string&>(), /*add_special_tokens=*/false);
    const int64_t count = static_cast<int64_t>(ids.size());
    const int64_t passages = std::min(most_passages, count / taken);
    if (passages == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ": ", count, " tokens hold no passage of ", taken));
    }
    for (int64_t i = 0; i < passages; ++i) {
      const auto begin = ids.begin() + i * (count / passages);
      const auto end = begin + taken;
      Task& task = tasks->emplace_back();
      std::vector<int32_t> prompt = prefix;
      prompt.insert(prompt.end(), begin, end - answer_tokens);
      task.request.input = std::move(prompt);
      task.request.forced_tokens.assign(end - answer_tokens, end);
      task.request.output.logprobs = 0;
      task.line = {{"task", "perplexity"}, {"text", name}, {"passage", i}};
    }
  }
  return absl::OkStatus();
}

// `filler`, over and over, cut after a word once it is as long as wanted.
std::string RepeatToTokens(const engine::Tokenizer& tokenizer, const std::string& filler,
                           int64_t tokens) {
  const auto once = static_cast<int64_t>(tokenizer.Encode(filler, false).size());
  std::string text;
  for (int64_t have = 0; have < tokens; have += std::max<int64_t>(1, once)) text += filler + " ";
  const std::vector<int32_t> ids = tokenizer.Encode(text, false);
  text = tokenizer.Decode(std::span(ids).first(static_cast<size_t>(tokens)), false);
  return text.substr(0, text.find_last_of(" \n"));
}

// The question in the model's own form of conversation, when it has one, and the answer begun.
std::vector<int32_t> PasskeyPrompt(const Engine& engine, const std::string& question) {
  constexpr std::string_view kBegun = "The pass key is";
  const auto chat = engine.RenderChat({{{"user", question}}});
  const std::string prompt = chat.ok() ? absl::StrCat(*chat, std::string(kBegun))
                                       : absl::StrCat(question, "\n", std::string(kBegun));
  return engine.tokenizer().Encode(prompt, /*add_special_tokens=*/!chat.ok());
}

// As Mohtashami and Jaggi 2023: a key in the middle of what does not matter, asked for at the end.
absl::Status AddPasskeyTasks(const json& spec, const Engine& engine, std::vector<Task>* tasks) {
  const auto length = spec.at("prompt_tokens").get<int64_t>();
  const std::string filler = spec.at("filler").get<std::string>();
  if (filler.empty() || length < 1) {
    return absl::InvalidArgumentError("passkey: prompt_tokens and filler must not be empty");
  }
  const std::string text = RepeatToTokens(engine.tokenizer(), filler, length);
  for (const json& key : spec.at("keys")) {
    for (const json& depth : spec.at("depths")) {
      const auto share = depth.get<double>();
      if (!(share >= 0 && share <= 1)) {
        return absl::InvalidArgumentError(absl::StrCat("passkey: depth from 0 to 1, got ", share));
      }
      Task& task = tasks->emplace_back();
      task.key = absl::StrCat(key.get<int64_t>());
      const size_t at =
          text.find(' ', static_cast<size_t>(share * static_cast<double>(text.size())));
      const size_t split = at == std::string::npos ? text.size() : at;
      const std::string question = absl::StrCat(
          "There is a pass key hidden in the text below. Find it and remember it.\n\n",
          text.substr(0, split), " The pass key is ", task.key, ". Remember it. ", task.key,
          " is the pass key.", text.substr(split), "\n\nWhat is the pass key?");
      task.request.input = PasskeyPrompt(engine, question);
      task.request.sampling.temperature = 0;
      task.request.stopping.max_tokens = spec.value("max_tokens", 32);
      task.line = {{"task", "passkey"}, {"depth", share}, {"key", task.key}};
    }
  }
  return absl::OkStatus();
}

// ---- results ----

json ToJson(const engine::Recall& recall) {
  return {{"mean", recall.mean},
          {"p5", recall.p5},
          {"steps", recall.steps},
          {"complete", recall.complete},
          {"layer_means", recall.layer_means}};
}

json Line(const engine::ModelInfo& model, const Task& task, const Answer& answer) {
  json line = task.line;
  line["model"] = model.name;
  line["weight_dtype"] = model.weight_dtype;
  line["kv_cache_dtype"] = model.kv_dtype;
  const engine::AppliedEviction& applied = answer.info.eviction;
  const engine::Usage& usage = answer.finished.usage;
  line["prompt_tokens"] = usage.prompt_tokens;
  line["budget_tokens"] = applied.budget_tokens;
  line["sink_tokens"] = applied.sink_tokens;
  line["heavy_tokens"] = applied.heavy_tokens;
  line["recent_tokens"] = applied.recent_tokens;
  line["evicted_tokens"] = usage.evicted_tokens;
  if (usage.recall) line["recall"] = ToJson(*usage.recall);
  if (!task.key.empty()) {
    line["answer"] = answer.text;
    line["found"] = answer.text.find(task.key) != std::string::npos;
    return line;
  }
  double sum = 0;
  for (float logprob : answer.logprobs) sum -= logprob;
  const double nll = sum / static_cast<double>(answer.logprobs.size());
  line["tokens"] = answer.logprobs.size();
  line["nll"] = nll;
  line["perplexity"] = std::exp(nll);
  return line;
}

// Everything is submitted at once; the engine batches it as it would for a server's clients.
absl::Status Run(const json& spec) {
  auto options = ReadOptions(spec.at("engine"));
  if (!options.ok()) return options.status();
  options->queue.max_requests = INT32_MAX;
  const auto engine = Engine::Load(*options, nullptr, [](std::string_view, double) {});
  if (!engine.ok()) return engine.status();

  std::vector<Task> tasks;
  absl::Status status;
  if (spec.contains("perplexity")) {
    status = AddPerplexityTasks(spec.at("perplexity"), **engine, &tasks);
  }
  if (status.ok() && spec.contains("passkey")) {
    status = AddPasskeyTasks(spec.at("passkey"), **engine, &tasks);
  }
  if (!status.ok()) return status;

  std::vector<std::pair<Task, std::future<absl::StatusOr<Answer>>>> running;
  for (const json& described : spec.at("evictions")) {
    const auto eviction = ReadEviction(described);
    if (!eviction.ok()) return eviction.status();
    for (Task task : tasks) {
      task.line["eviction"] = described.at("name");
      GenerateRequest request = task.request;
      request.eviction = *eviction;
      auto sink = std::make_unique<CollectingSink>();
      auto answer = sink->answer();
      status = (*engine)->Submit(std::move(request), std::move(sink));
      if (!status.ok()) return status;
      running.emplace_back(std::move(task), std::move(answer));
    }
  }
  for (auto& [task, future] : running) {
    const absl::StatusOr<Answer> answer = future.get();
    if (!answer.ok()) return answer.status();
    // A token of an answer may end inside a character.
    const json line = Line((*engine)->model_info(), task, *answer);
    std::puts(line.dump(-1, ' ', false, json::error_handler_t::replace).c_str());
    std::fflush(stdout);
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace hydrant::bench

int main() {
  try {
    const auto spec = nlohmann::json::parse(std::cin);
    const absl::Status status = hydrant::bench::Run(spec);
    if (status.ok()) return 0;
    std::fprintf(stderr, "quality: %s\n", std::string(status.message()).c_str());
  } catch (const nlohmann::json::exception& error) {
    std::fprintf(stderr, "quality: standard input: %s\n", error.what());
  }
  return 1;
}
