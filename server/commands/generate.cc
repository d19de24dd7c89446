#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/byte_size.h"
#include "server/command_line.h"
#include "server/commands/commands.h"
#include "server/commands/generate_source.h"
#include "server/prompt_flags.h"
#include "server/request_flags.h"
#include "server/signals.h"

namespace hydrant::server {
namespace {

constexpr std::chrono::milliseconds kPoll(20);
constexpr int kInterrupted = 130;  // as shells say of a process that SIGINT ended

struct GenerateOptions {
  engine::EngineOptions engine;
  std::string server;
  ClientSecurity security;
  PromptFlags prompt;
  v1::GenerateRequest request;
};

void AddStoppingFlags(CLI::App& app, v1::StoppingParams& stopping) {
  AddField<int32_t>(
      app, "--max_tokens", [&](int32_t v) { stopping.set_max_tokens(v); },
      "Most tokens of the answer");
  AddField<int32_t>(
      app, "--min_tokens", [&](int32_t v) { stopping.set_min_tokens(v); },
      "Least tokens of the answer");
  app.add_option_function<std::vector<std::string>>(
         "--stop",
         [&](const std::vector<std::string>& stops) {
           for (const std::string& stop : stops) stopping.add_stop(stop);
         },
         "A text that ends the answer; may be repeated")
      ->allow_extra_args(false)
      ->type_name("TEXT");
  app.add_option_function<std::vector<uint32_t>>(
         "--stop_token_ids",
         [&](const std::vector<uint32_t>& ids) {
           stopping.mutable_stop_token_ids()->Add(ids.begin(), ids.end());
         },
         "A token that ends the answer; may be repeated")
      ->allow_extra_args(false)
      ->type_name("ID");
  app.add_flag_callback(
      "--ignore_eos", [&] { stopping.set_ignore_eos(true); }, "Goes on past the end of sequence");
}

std::variant<GenerateOptions, int> ParseGenerateOptions(const Arguments& arguments) {
  GenerateOptions options;
  CLI::App app(
      "Answers one prompt: with a model loaded here (--model) or by a server (--server). The "
      "answer goes to standard output as it comes, a line about it to standard error.",
      "hydrant generate");
  AddModelFlags(app, options.engine);
  app.add_option("--server", options.server, "A running server, such as localhost:50051")
      ->type_name("ADDRESS")
      ->excludes("--model");
  AddClientSecurityFlags(app, options.security);
  AddPromptFlags(app, options.prompt);
  v1::SamplingParams& sampling = *options.request.mutable_sampling();
  AddSamplingFlags(app, sampling);
  AddField<uint64_t>(
      app, "--seed", [&](uint64_t v) { sampling.set_seed(v); }, "Makes sampling repeatable");
  AddStoppingFlags(app, *options.request.mutable_stopping());
  AddEvictionFlags(app, *options.request.mutable_eviction());
  if (const auto exit_code = ParseFlags(app, arguments)) return *exit_code;
  if (options.server.empty() == options.engine.model_path.empty()) {
    std::fprintf(stderr, "hydrant generate: give --model, or --server\n");
    return 2;
  }
  return options;
}

// Writes the answer as it comes, and at its end what it took.
class Printer {
 public:
  void Print(const v1::GenerateResponse& response) {
    if (response.has_prompt_info()) eviction_ = response.prompt_info().eviction();
    if (response.has_delta()) {
      std::fwrite(response.delta().text().data(), 1, response.delta().text().size(), stdout);
      Flush();
    }
    if (response.has_finished()) PrintUsage(response.finished());
  }

  // Whether nobody can read the answer any more. From any thread.
  bool failed() const { return failed_; }

 private:
  void Flush() {
    if (std::fflush(stdout) != 0 || std::ferror(stdout)) failed_ = true;
  }

  void PrintUsage(const v1::Finished& finished) {
    const v1::Usage& usage = finished.usage();
    const double seconds = usage.decode_seconds();
    // The first token comes with the prompt.
    const double rate = seconds > 0 ? (usage.completion_tokens() - 1) / seconds : 0;
    std::string policy = v1::EvictionParams::Policy_Name(eviction_.policy());
    if (eviction_.has_budget_tokens()) absl::StrAppend(&policy, " of ", eviction_.budget_tokens());
    std::printf("\n");
    Flush();
    std::fprintf(stderr,
                 "[%s: %d prompt + %d tokens, prompt %.2f s, %.1f tokens/s; KV %s: at most %d "
                 "tokens, %s, %d evicted]\n",
                 v1::Finished::Reason_Name(finished.reason()).c_str(), usage.prompt_tokens(),
                 usage.completion_tokens(), usage.prefill_seconds(), rate, policy.c_str(),
                 usage.peak_kv_tokens(), FormatByteSize(usage.kv_bytes()).c_str(),
                 usage.evicted_tokens());
    if (usage.has_recall()) PrintRecall(usage.recall());
  }

  static void PrintRecall(const v1::Recall& recall) {
    const char* ended = recall.ended_early() ? "; its memory was full, so it ended early" : "";
    if (recall.steps() > 0) {
      std::fprintf(stderr, "[recall %.3f, 5th percentile %.3f, audited at %d steps%s]\n",
                   recall.mean(), recall.p5(), recall.steps(), ended);
    } else {
      std::fprintf(stderr, "[recall %s]\n",
                   recall.ended_early() ? "not measured: the audit's memory was full at once"
                                        : "1: nothing was lost");
    }
  }

  v1::EvictionParams eviction_;
  std::atomic<bool> failed_ = false;
};

// Hands the source over through `loaded` as soon as it can be cancelled.
absl::Status Answer(const GenerateOptions& options, Printer& printer,
                    std::promise<std::shared_ptr<GenerateSource>>& loaded) {
  auto made = options.server.empty() ? LocalSource(options.engine)
                                     : RemoteSource(options.server, options.security);
  if (!made.ok()) return made.status();
  const std::shared_ptr<GenerateSource> source = *std::move(made);
  loaded.set_value(source);
  return source->Generate(options.request,
                          [&](const v1::GenerateResponse& response) { printer.Print(response); });
}

}  // namespace

int Generate(const Arguments& arguments) {
  auto parsed = ParseGenerateOptions(arguments);
  if (const int* exit_code = std::get_if<int>(&parsed)) return *exit_code;
  GenerateOptions& options = std::get<GenerateOptions>(parsed);
  FillInput(options.prompt, options.request);

  Signals signals;
  Printer printer;
  std::promise<std::shared_ptr<GenerateSource>> loaded;
  std::future<std::shared_ptr<GenerateSource>> loading = loaded.get_future();
  std::future<absl::Status> done =
      std::async(std::launch::async, [&] { return Answer(options, printer, loaded); });
  std::shared_ptr<GenerateSource> source;
  bool interrupted = false;
  while (done.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    const bool signalled = signals.Wait(kPoll).has_value();
    if (!source && loading.wait_for(std::chrono::seconds(0)) == std::future_status::ready) {
      source = loading.get();
    }
    if (signalled) {
      if (interrupted || !source) std::_Exit(kInterrupted);
      interrupted = true;
      source->Cancel();
    } else if (source && printer.failed()) {
      source->Cancel();
    }
  }
  const absl::Status status = done.get();
  if (printer.failed() && !interrupted) return 1;  // main says why
  if (status.ok()) return 0;
  std::fprintf(stderr, "%shydrant generate: %s: %s\n", interrupted ? "\n" : "",
               absl::StatusCodeToString(status.code()).c_str(),
               std::string(status.message()).c_str());
  return interrupted ? kInterrupted : 1;
}

}  // namespace hydrant::server
