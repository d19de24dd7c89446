#include "server/serve_options.h"

#include "absl/strings/str_cat.h"
#include "server/command_line.h"
#include "server/operation_flags.h"

namespace hydrant::server {
namespace {

void AddSchedulingFlags(CLI::App& app, engine::EngineOptions& options) {
  app.add_option("--max_num_seqs", options.max_num_seqs, "Most requests that run at once")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--max_batched_tokens", options.max_batched_tokens,
                 "Most tokens of a step: the decodes and the chunks of prompts")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--max_tokens_limit", options.max_tokens_limit,
                 "Most tokens that a request may ask for, and gets if it does not say; 0: what the "
                 "context leaves")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
}

void AddEvictionFlags(CLI::App& app, engine::EvictionDefaults& eviction) {
  AddEvictionPolicy(
      app, [&eviction](engine::EvictionPolicyKind policy) { eviction.policy = policy; },
      "For requests that say nothing: full, window, streaming or h2o")
      ->default_str("h2o");
  CLI::Option* tokens =
      app.add_option_function<int32_t>(
             "--budget_tokens", [&eviction](int32_t budget) { eviction.budget_tokens = budget; },
             "Tokens that an evicting policy keeps, for requests that say nothing")
          ->check(CLI::PositiveNumber)
          ->type_name("INT")
          ->default_str("1024");
  app.add_option_function<float>(
         "--budget_ratio",
         [&eviction](float ratio) {
           eviction.budget_ratio = ratio;
           eviction.budget_tokens.reset();
         },
         "The same as a share of prompt + max_tokens, in (0, 1]")
      ->check(NumberIn(0, 1) & CLI::PositiveNumber)
      ->type_name("FLOAT")
      ->excludes(tokens);
  app.add_option("--min_budget_tokens", eviction.min_budget_tokens,
                 "Least budget that an evicting request may have; 0: no limit")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--max_budget_tokens", eviction.max_budget_tokens,
                 "Most budget that an evicting request may have; 0: no limit")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
}

void AddAuditFlags(CLI::App& app, engine::EngineOptions& options) {
  app.add_option("--audit_rate", options.audit_rate,
                 "Share of the requests that are audited though they did not ask, 0 to 1: what "
                 "their eviction loses is measured")
      ->check(NumberIn(0, 1))
      ->capture_default_str();
  AddByteSize(app, "--audit_bytes", options.audit_bytes, "256MB",
              "Memory for the evicted keys that all audits keep, such as 256MB; 0: no audits");
}

// Limits that refuse each other, or every request that names no budget, are a mistake.
void CheckBudgetLimits(const engine::EvictionDefaults& eviction) {
  const int32_t low = eviction.min_budget_tokens;
  const int32_t high = eviction.max_budget_tokens;
  if (high > 0 && low > high) {
    throw CLI::ValidationError("--min_budget_tokens",
                               absl::StrCat(low, " is above --max_budget_tokens, ", high));
  }
  if (!eviction.budget_tokens) return;
  const int32_t budget = *eviction.budget_tokens;
  constexpr char kWhy[] = ": requests that say nothing would be refused";
  if (budget < low) {
    throw CLI::ValidationError("--budget_tokens",
                               absl::StrCat(budget, " is below --min_budget_tokens, ", low, kWhy));
  }
  if (high > 0 && budget > high) {
    throw CLI::ValidationError("--budget_tokens",
                               absl::StrCat(budget, " is above --max_budget_tokens, ", high, kWhy));
  }
}

}  // namespace

std::variant<ServeOptions, int> ParseServeOptions(const std::vector<std::string>& args) {
  ServeOptions options;
  CLI::App app(
      "Serves a model over gRPC (hydrant.v1.Generation, vllm.grpc.engine.VllmEngine, health, "
      "reflection) with metrics for Prometheus.\nEvery flag is also read from the environment "
      "(HYDRANT_MAX_QUEUE=100) and from "
      "--config (max_queue = 100); the command line wins, then the environment.",
      "hydrant serve");
  AddModelFlags(app, options.engine);
  app.get_option("--model")->required();
  app.add_option("--model_name", options.engine.model_name,
                 "The model's name for clients; default: from the path")
      ->type_name("NAME");
  app.add_option("--listen", options.listen, "Where gRPC listens: host:port or unix:/path")
      ->type_name("ADDRESS")
      ->capture_default_str();
  app.add_option("--metrics_listen", options.metrics_listen,
                 "Where Prometheus scrapes /metrics: host:port or off")
      ->type_name("ADDRESS")
      ->capture_default_str();
  AddGrpcServerFlags(app, options.grpc);
  AddSchedulingFlags(app, options.engine);
  AddQueueFlags(app, options.engine);
  AddTenantFlags(app, options.generation.tenants);
  AddEvictionFlags(app, options.engine.eviction);
  AddAuditFlags(app, options.engine);
  AddLifeFlags(app, options);
  app.add_option_function<std::string>(
         "--metrics_compat",
         [&options](const std::string&) { options.metric_names = MetricNames::kVllm; },
         "vllm: metrics under vLLM's names (vllm:num_requests_running) instead of hydrant_...")
      ->check(CLI::IsMember({"vllm"}))
      ->type_name("NAMES");
  AddConfigFile(app);
  app.callback([&options] {
    CheckLimits(options.grpc);
    CheckBudgetLimits(options.engine.eviction);
    CheckTenantFlags(options.generation.tenants);
    CheckStreamBuffer(options.generation);
    if (options.engine.audit_rate > 0 && options.engine.audit_bytes == 0) {
      throw CLI::ValidationError("--audit_rate", "audits need memory, and --audit_bytes is 0");
    }
  });

  if (const auto exit_code = ParseFlags(app, WithEnvironment(app, args))) return *exit_code;
  options.effective = EffectiveFlags(app);
  return options;
}

}  // namespace hydrant::server
