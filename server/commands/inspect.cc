#include <cstdio>
#include <string>

#include "server/command_line.h"
#include "server/commands/commands.h"
#include "server/inspect/inspection.h"

namespace hydrant::server {

int Inspect(const Arguments& arguments) {
  InspectOptions options;
  bool as_json = false;
  CLI::App app(
      "Tells what a checkpoint is, and how many sequences fit in a KV cache. Fails when we cannot "
      "run it.",
      "hydrant inspect");
  app.add_option("--model,model", options.model, "A .gguf file, or a Hugging Face directory")
      ->required()
      ->type_name("PATH");
  AddByteSize(app, "--kv_cache_bytes", options.kv_cache_bytes, "1GiB",
              "Memory of the KV cache, such as 100MB or 4GiB");
  app.add_option("--length", options.length,
                 "Tokens of a sequence, prompt and answer; 0: the whole context")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  AddEvictionPolicy(
      app, [&](engine::EvictionPolicyKind policy) { options.eviction = policy; },
      "full, window, streaming or h2o")
      ->default_str("h2o");
  app.add_option("--budget_tokens", options.budget_tokens,
                 "Tokens that a sequence keeps under that policy")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_flag("--json", as_json, "Prints all of it as JSON");
  if (const auto exit_code = ParseFlags(app, arguments)) return *exit_code;
  const auto inspection = Inspect(options);
  if (!inspection.ok()) {
    std::fprintf(stderr, "hydrant inspect: %s\n",
                 std::string(inspection.status().message()).c_str());
    return 1;
  }
  const std::string text = as_json ? InspectionJson(*inspection) : InspectionText(*inspection);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return inspection->tokenizer.status.ok() ? 0 : 1;
}

}  // namespace hydrant::server
