#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/memory_limit.h"
#include "server/command_line.h"
#include "server/commands/commands.h"
#include "server/explain/explainer.h"
#include "server/explain/page.h"
#include "server/load_progress.h"
#include "server/prompt_flags.h"
#include "server/proto_conversion.h"
#include "server/request_flags.h"

namespace hydrant::server {
namespace {

struct ExplainOptions {
  engine::EngineOptions engine;
  PromptFlags prompt;
  v1::GenerateRequest request;
  std::string output;
};

absl::StatusOr<std::string> MakePage(ExplainOptions& options) {
  FillInput(options.prompt, options.request);
  auto request = FromProto(std::move(options.request));
  if (!request.ok()) return request.status();
  // There is one audit, and it should see its end.
  if (const int64_t available = engine::AvailableMemoryBytes(); available > 0) {
    options.engine.audit_bytes = available / 4;
  }
  const Log log;
  LoadProgress progress(log);
  auto engine = engine::Engine::Load(
      options.engine, nullptr,
      [&](std::string_view stage, double ratio) { progress.Report(stage, ratio); });
  if (!engine.ok()) return engine.status();
  const auto explanation = Explain(**engine, *std::move(request));
  if (!explanation.ok()) return explanation.status();
  return MakePage(*explanation);
}

absl::Status Run(ExplainOptions& options) {
  // Tried before minutes of work, without touching what is there.
  const bool existed = std::filesystem::exists(options.output);
  if (!std::ofstream(options.output, std::ios::app)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--output: ", options.output, ": ", std::strerror(errno)));
  }
  const absl::StatusOr<std::string> page = MakePage(options);
  if (!page.ok()) {
    std::error_code ignored;
    if (!existed) std::filesystem::remove(options.output, ignored);
    return page.status();
  }
  std::ofstream file(options.output, std::ios::binary);
  file << *page;
  file.close();
  if (!file) return absl::InternalError(absl::StrCat(options.output, ": cannot be written"));
  return absl::OkStatus();
}

}  // namespace

int Explain(const Arguments& arguments) {
  ExplainOptions options;
  CLI::App app(
      "Answers one prompt under an eviction policy and with the full cache, both greedily, and "
      "writes a page that shows what the policy kept: a self-contained HTML file for any browser.",
      "hydrant explain");
  AddModelFlags(app, options.engine);
  app.get_option("--model")->required();
  AddPromptFlags(app, options.prompt);
  v1::StoppingParams& stopping = *options.request.mutable_stopping();
  stopping.set_max_tokens(200);
  AddField<int32_t>(
      app, "--max_tokens", [&](int32_t v) { stopping.set_max_tokens(v); },
      "Most tokens of each answer")
      ->default_str("200");
  app.add_flag_callback(
      "--ignore_eos", [&] { stopping.set_ignore_eos(true); }, "Goes on past the end of sequence");
  AddEvictionFlags(app, *options.request.mutable_eviction());
  app.remove_option(app.get_option("--audit"));  // always
  app.add_option("--output", options.output, "The page; a file that is there is overwritten")
      ->required()
      ->type_name("FILE");
  if (const auto exit_code = ParseFlags(app, arguments)) return *exit_code;
  const absl::Status status = Run(options);
  if (status.ok()) {
    std::printf("%s\n", options.output.c_str());
    return 0;
  }
  std::fprintf(stderr, "hydrant explain: %s: %s\n", absl::StatusCodeToString(status.code()).c_str(),
               std::string(status.message()).c_str());
  return 1;
}

}  // namespace hydrant::server
