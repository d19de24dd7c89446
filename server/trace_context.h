// The W3C trace context of a call, from its header "traceparent", by which its log line and the
// spans of the services before it are found together. (https://www.w3.org/TR/trace-context/)

#ifndef HYDRANT_SERVER_TRACE_CONTEXT_H_
#define HYDRANT_SERVER_TRACE_CONTEXT_H_

#include <optional>
#include <string>
#include <string_view>

namespace hydrant::server {

struct TraceContext {
  std::string trace_id;  // 32 hexadecimal digits, not all 0
  std::string span_id;   // of the caller: 16, not all 0
  bool sampled = false;
};

// nullopt for what is none: by the standard, it is as if there were no header. A version of later
// days is read as far as it is known.
std::optional<TraceContext> ParseTraceparent(std::string_view header);

}  // namespace hydrant::server

#endif  // HYDRANT_SERVER_TRACE_CONTEXT_H_
