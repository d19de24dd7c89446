#include "server/trace_context.h"

namespace hydrant::server {
namespace {

// version-trace_id-span_id-flags
constexpr size_t kVersion = 2, kTraceId = 32, kSpanId = 16, kFlags = 2;
constexpr size_t kLength = kVersion + 1 + kTraceId + 1 + kSpanId + 1 + kFlags;

// The standard has lower case only.
bool IsHex(std::string_view text) {
  return text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}
bool IsZero(std::string_view text) { return text.find_first_not_of('0') == std::string_view::npos; }

int Digit(char c) { return c <= '9' ? c - '0' : c - 'a' + 10; }

}  // namespace

std::optional<TraceContext> ParseTraceparent(std::string_view header) {
  if (header.size() < kLength) return std::nullopt;
  const std::string_view version = header.substr(0, kVersion);
  const std::string_view trace_id = header.substr(kVersion + 1, kTraceId);
  const std::string_view span_id = header.substr(kVersion + 1 + kTraceId + 1, kSpanId);
  const std::string_view flags = header.substr(kLength - kFlags, kFlags);
  const bool apart = header[kVersion] == '-' && header[kVersion + 1 + kTraceId] == '-' &&
                     header[kLength - kFlags - 1] == '-';
  const bool hex = IsHex(version) && IsHex(trace_id) && IsHex(span_id) && IsHex(flags);
  if (!apart || !hex || IsZero(trace_id) || IsZero(span_id) || version == "ff") return std::nullopt;
  if (header.size() > kLength && (version == "00" || header[kLength] != '-')) return std::nullopt;
  return TraceContext{std::string(trace_id), std::string(span_id), (Digit(flags[1]) & 1) != 0};
}

}  // namespace hydrant::server
