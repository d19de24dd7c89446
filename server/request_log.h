// One line for each request that ended, however it ended: who, what became of it, and what it took.
// Prompts are in it only when asked for; what was generated never is.

#ifndef HYDRANT_SERVER_REQUEST_LOG_H_
#define HYDRANT_SERVER_REQUEST_LOG_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "engine/request.h"
#include "server/log.h"
#include "server/trace_context.h"

namespace hydrant::server {

struct RequestRecord {
  std::string request_id;  // empty: refused before it was known
  std::string tenant;
  std::string peer;
  std::optional<TraceContext> trace;
  std::optional<std::string> prompt;  // as a text, token ids or messages in JSON
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
  absl::Status status;
  std::optional<engine::Finished> finished;              // if and only if `status` is OK
  std::chrono::duration<double> time_to_first_token{0};  // 0: none came
  std::chrono::duration<double> time{0};
};

// `input` as the value of the field "prompt".
std::string PromptText(const engine::GenerateRequest& request);

LogFields RequestFields(const RequestRecord& record);

}  // namespace hydrant::server

#endif  // HYDRANT_SERVER_REQUEST_LOG_H_
