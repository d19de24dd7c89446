#include "server/request_log.h"

#include <nlohmann/json.hpp>
#include <variant>
#include <vector>

#include "absl/strings/ascii.h"
#include "server/error_status.h"

namespace hydrant::server {
namespace {

const char* FinishReasonName(engine::FinishReason reason) {
  return reason == engine::FinishReason::kStop ? "STOP" : "LENGTH";
}

}  // namespace

std::string PromptText(const engine::GenerateRequest& request) {
  if (const auto* text = std::get_if<std::string>(&request.input)) return *text;
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  if (const auto* ids = std::get_if<std::vector<int32_t>>(&request.input)) {
    json = *ids;
  } else {
    for (const auto& message : std::get<engine::chat::Conversation>(request.input).messages) {
      json.push_back({{"role", message.role}, {"content", message.content}});
    }
  }
  return json.dump();
}

LogFields RequestFields(const RequestRecord& record) {
  LogFields fields;
  const auto add = [&](const char* name, auto value) { fields.push_back({name, value}); };
  if (!record.request_id.empty()) add("request_id", record.request_id);
  if (!record.tenant.empty()) add("tenant", record.tenant);
  add("peer", record.peer);
  if (record.trace) {
    add("trace_id", record.trace->trace_id);
    add("span_id", record.trace->span_id);
  }
  add("status", absl::StatusCodeToString(record.status.code()));
  if (record.finished) {
    add("finish_reason", std::string(FinishReasonName(record.finished->reason)));
  } else {
    add("reason", ReasonOf(record.status));
    add("error", std::string(record.status.message()));
  }
  add("prompt_tokens", record.prompt_tokens);
  add("completion_tokens", record.completion_tokens);
  if (record.finished) {
    const engine::Usage& usage = record.finished->usage;
    add("evicted_tokens", int64_t{usage.evicted_tokens});
    add("preemptions", int64_t{usage.preemptions});
    add("queue_seconds", usage.queue_seconds);
  }
  if (record.time_to_first_token.count() > 0) {
    add("ttft_seconds", record.time_to_first_token.count());
  }
  add("seconds", record.time.count());
  if (record.prompt) add("prompt", *record.prompt);
  return fields;
}

}  // namespace hydrant::server
