#include "server/library_log.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace hydrant::server {
namespace {

// The libraries take plain functions, which can hold no Log.
template <LogFormat format>
struct Lines {
  static void Write(const char* library, const char* file, int line, const std::string& text) {
    Log(format).Info(library, {{"source", absl::StrCat(file, ":", line)}, {"text", text}});
  }
  static void Grpc(gpr_log_func_args* line) {
    Write("gRPC", line->file, line->line, line->message);
  }
  static void Protobuf(google::protobuf::LogLevel, const char* file, int line,
                       const std::string& text) {
    Write("Protobuf", file, line, text);
  }
  static void Set() {
    gpr_set_log_function(Grpc);
    google::protobuf::SetLogHandler(Protobuf);
  }
};

}  // namespace

void SetLibraryLog(LogFormat format) {
  if (format == LogFormat::kJson) {
    Lines<LogFormat::kJson>::Set();
  } else {
    Lines<LogFormat::kText>::Set();
  }
}

}  // namespace hydrant::server
