// What the server says of itself, a line a message on stderr: for people, or as JSON for machines.

#ifndef HYDRANT_SERVER_LOG_H_
#define HYDRANT_SERVER_LOG_H_

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace hydrant::server {

enum class LogFormat {
  kText,  // hydrant: message name=value ...
  kJson,  // {"time":"2026-01-01T00:00:00.000Z","level":"info","message":"...","name":value, ...}
};
enum class LogLevel { kInfo, kError };

struct LogField {
  std::string name;
  std::variant<std::string, int64_t, double, bool> value;
};
using LogFields = std::vector<LogField>;

// One line, with its newline. Bytes that are no UTF-8 are replaced, control characters escaped:
// what a client sent can end no line and forge none. `time` in seconds since 1970; text has none.
std::string FormatLogLine(LogFormat format, LogLevel level, double time, std::string_view message,
                          const LogFields& fields);

// Thread-safe: a line is one write.
class Log {
 public:
  explicit Log(LogFormat format = LogFormat::kText, FILE* file = stderr)
      : format_(format), file_(file) {}

  void Info(std::string_view message, const LogFields& fields = {}) const;
  void Error(std::string_view message, const LogFields& fields = {}) const;
  LogFormat format() const { return format_; }

 private:
  void Write(LogLevel level, std::string_view message, const LogFields& fields) const;

  const LogFormat format_;
  FILE* const file_;
};

}  // namespace hydrant::server

#endif  // HYDRANT_SERVER_LOG_H_
