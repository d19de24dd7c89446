#include "server/operation_flags.h"

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "server/command_line.h"

namespace hydrant::server {
namespace {

constexpr double kDaySeconds = 24 * 60 * 60;
constexpr int64_t kMinStreamBuffer = 64'000;

CLI::Option* AddSeconds(CLI::App& app, const std::string& name,
                        std::chrono::duration<double>& target, const std::string& help) {
  return app
      .add_option_function<double>(
          name, [&target](double seconds) { target = std::chrono::duration<double>(seconds); },
          help)
      ->check(NumberIn(0, kDaySeconds))
      ->type_name("SECONDS")
      ->default_str(CLI::detail::to_string(target.count()));
}

// What gRPC allows in the name of a metadata entry that is text.
std::string CheckMetadataKey(std::string& key) {
  absl::AsciiStrToLower(&key);
  const bool allowed = key.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-_.") == key.npos;
  if (allowed && !key.ends_with("-bin") && !key.starts_with("grpc-")) return std::string();
  return "'" + key +
         "' is no key of text metadata: letters, digits and -_. only, no grpc- before, no -bin "
         "behind";
}

}  // namespace

void AddQueueFlags(CLI::App& app, engine::EngineOptions& options) {
  app.add_option("--max_queue", options.queue.max_requests,
                 "Most requests that wait; beyond, RESOURCE_EXHAUSTED")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--max_queue_tokens", options.queue.max_tokens,
                 "Most prompt tokens that wait, over all requests; 0: no limit")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option_function<double>(
         "--queue_timeout",
         [&options](double seconds) {
           options.queue.timeout.reset();
           if (seconds > 0) options.queue.timeout = std::chrono::duration<double>(seconds);
         },
         "Seconds that a request may wait before it starts; then RESOURCE_EXHAUSTED. Set below the "
         "time to first token that is still useful, it keeps the server useful under overload; 0: "
         "no limit")
      ->check(NumberIn(0, kDaySeconds))
      ->type_name("SECONDS")
      ->default_str("0");
  app.add_option("--priority_aging", options.priority_aging,
                 "Seconds of waiting that outweigh one step of priority; 0: none does, and a low "
                 "priority may wait for ever")
      ->check(NumberIn(0, kDaySeconds))
      ->type_name("SECONDS")
      ->capture_default_str();
}

void AddTenantFlags(CLI::App& app, TenantOptions& tenants) {
  app.add_option("--tenant_metadata_key", tenants.metadata_key,
                 "The call's metadata that names its tenant, such as x-tenant; the limits below "
                 "are each tenant's")
      ->transform(CLI::Validator(CheckMetadataKey, ""))
      ->type_name("KEY");
  app.add_option("--tenant_max_requests", tenants.max_requests,
                 "Most requests of a tenant that run or wait; 0: no limit")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--tenant_tokens_per_second", tenants.tokens_per_second,
                 "Tokens of prompts and answers that a tenant may use over time; 0: no limit")
      ->check(NumberIn(0, 1e12))
      ->capture_default_str();
  app.add_option("--tenant_burst_tokens", tenants.burst_tokens,
                 "Tokens that a tenant may use at once after a pause; 0: ten seconds' worth")
      ->check(NumberIn(0, 1e15))
      ->capture_default_str();
}

void CheckTenantFlags(const TenantOptions& tenants) {
  if (tenants.metadata_key.empty() && (tenants.max_requests > 0 || tenants.tokens_per_second > 0)) {
    throw CLI::ValidationError("--tenant_metadata_key",
                               "limits for each tenant need the key that names it");
  }
  if (tenants.burst_tokens > 0 && tenants.tokens_per_second == 0) {
    throw CLI::ValidationError("--tenant_burst_tokens", "needs --tenant_tokens_per_second");
  }
}

void CheckStreamBuffer(const GenerationOptions& options) {
  if (options.stream_buffer_bytes >= kMinStreamBuffer) return;
  throw CLI::ValidationError(
      "--stream_buffer_bytes",
      absl::StrCat(options.stream_buffer_bytes, " is below ", kMinStreamBuffer,
                   ": clients that read would be cut off"));
}

void AddLifeFlags(CLI::App& app, ServeOptions& options) {
  AddSeconds(app, "--drain_timeout", options.drain_timeout,
             "Seconds that running requests get after SIGTERM");
  AddSeconds(app, "--step_timeout", options.step_timeout,
             "Seconds after which a step of the engine counts as stuck: health turns NOT_SERVING, "
             "and the process ends with 70; 0: never");
  AddByteSize(app, "--stream_buffer_bytes", options.generation.stream_buffer_bytes, "16MB",
              "Most of an answer that is kept for a client that does not read; then its request is "
              "cancelled");
  app.add_option_function<std::string>(
         "--log_format",
         [&options](const std::string& format) {
           options.log_format = format == "json" ? LogFormat::kJson : LogFormat::kText;
         },
         "Lines for people, or JSON objects")
      ->check(CLI::IsMember({"text", "json"}))
      ->type_name("FORMAT")
      ->default_str("text");
  app.add_flag("--log_requests", options.generation.log_requests,
               "A line for each request that ended")
      ->default_str("true");
  app.add_flag("--log_prompts", options.generation.log_prompts,
               "Prompts in these lines, for debugging; they may hold anybody's secrets")
      ->default_str("false");
}

}  // namespace hydrant::server
