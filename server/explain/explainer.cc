#include "server/explain/explainer.h"

#include <future>
#include <memory>
#include <utility>

#include "engine/tokenizer/tokenizer.h"

namespace hydrant::server {
namespace {

using engine::GenerateRequest;

struct Run {
  engine::PromptInfo info;
  std::vector<int32_t> ids;  // prompt, then answer
  engine::Finished finished;
};

class RunSink final : public engine::ResponseSink {
 public:
  std::future<absl::StatusOr<Run>> run() { return promise_.get_future(); }

  void OnPromptInfo(engine::PromptInfo info) override { run_.info = std::move(info); }
  void OnDelta(engine::Delta delta) override {
    run_.ids.insert(run_.ids.end(), delta.token_ids.begin(), delta.token_ids.end());
  }
  void OnFinished(engine::Finished finished) override {
    run_.finished = std::move(finished);
    promise_.set_value(std::move(run_));
  }
  void OnError(absl::Status status) override { promise_.set_value(std::move(status)); }

 private:
  Run run_;
  std::promise<absl::StatusOr<Run>> promise_;
};

absl::StatusOr<std::future<absl::StatusOr<Run>>> Start(engine::Engine& engine,
                                                       GenerateRequest request) {
  auto sink = std::make_unique<RunSink>();
  auto run = sink->run();
  const absl::Status status = engine.Submit(std::move(request), std::move(sink));
  if (!status.ok()) return status;
  return run;
}

}  // namespace

std::vector<PageToken> ToPageTokens(const engine::Tokenizer& tokenizer,
                                    const std::vector<int32_t>& ids) {
  engine::IncrementalDetokenizer text(tokenizer, /*skip_special_tokens=*/false);
  std::vector<PageToken> tokens;
  tokens.reserve(ids.size());
  for (int32_t id : ids) tokens.push_back({id, text.Add(id), tokenizer.IsSpecial(id)});
  if (!tokens.empty()) tokens.back().text += text.Flush();
  return tokens;
}

absl::StatusOr<Explanation> Explain(engine::Engine& engine, GenerateRequest request) {
  request.sampling = {};
  request.sampling.temperature = 0;
  request.output = {};
  request.output.echo = true;  // gives the prompt's ids
  GenerateRequest full = request;
  full.eviction = {};
  full.eviction.policy = engine::EvictionPolicyKind::kFull;
  request.eviction.audit = true;
  request.report_held = true;

  auto started = Start(engine, std::move(request));
  if (!started.ok()) return started.status();
  auto full_started = Start(engine, std::move(full));
  absl::StatusOr<Run> run = started->get();
  if (!run.ok()) return run.status();
  if (!full_started.ok()) return full_started.status();
  absl::StatusOr<Run> full_run = full_started->get();
  if (!full_run.ok()) return full_run.status();

  const engine::ModelInfo& model = engine.model_info();
  Explanation e;
  e.model = model.name;
  e.weight_dtype = model.weight_dtype;
  e.kv_dtype = model.kv_dtype;
  e.kv_bytes_per_token = model.kv_bytes_per_token;
  e.eviction = run->info.eviction;
  const int32_t prompt = run->info.prompt_tokens;
  const std::vector<PageToken> tokens = ToPageTokens(engine.tokenizer(), run->ids);
  e.prompt.assign(tokens.begin(), tokens.begin() + prompt);
  e.answer.assign(tokens.begin() + prompt, tokens.end());
  const std::vector<PageToken> full_tokens = ToPageTokens(engine.tokenizer(), full_run->ids);
  e.full_answer.assign(full_tokens.begin() + prompt, full_tokens.end());
  e.held = *std::move(run->finished.held);
  e.usage = std::move(run->finished.usage);
  return e;
}

}  // namespace hydrant::server
