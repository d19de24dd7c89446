#include "server/log.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <nlohmann/json.hpp>

namespace hydrant::server {
namespace {

using Json = nlohmann::ordered_json;

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json ToJson(const LogField& field) {
  return std::visit([](const auto& value) { return Json(value); }, field.value);
}

// A word as it is; anything that could be misread as JSON writes it.
std::string ToText(const LogField& field) {
  const auto* text = std::get_if<std::string>(&field.value);
  if (text == nullptr) return Dump(ToJson(field));
  const bool plain = !text->empty() && std::all_of(text->begin(), text->end(), [](unsigned char c) {
    return c > ' ' && c < 0x7F && c != '"' && c != '=' && c != '\\';
  });
  return plain ? *text : Dump(Json(*text));
}

std::string FormatTime(double seconds) {
  const auto milliseconds = static_cast<int64_t>(seconds * 1000);
  const std::time_t whole = static_cast<std::time_t>(milliseconds / 1000);
  std::tm utc = {};
  gmtime_r(&whole, &utc);
  char text[40];
  const size_t n = std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &utc);
  std::snprintf(text + n, sizeof(text) - n, ".%03dZ", static_cast<int>(milliseconds % 1000));
  return text;
}

}  // namespace

std::string FormatLogLine(LogFormat format, LogLevel level, double time, std::string_view message,
                          const LogFields& fields) {
  if (format == LogFormat::kJson) {
    Json line;
    line["time"] = FormatTime(time);
    line["level"] = level == LogLevel::kInfo ? "info" : "error";
    line["message"] = message;
    for (const LogField& field : fields) line[field.name] = ToJson(field);
    return Dump(line) + "\n";
  }
  std::string line = "hydrant: ";
  for (const char c : message) line += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  for (const LogField& field : fields) line += " " + field.name + "=" + ToText(field);
  return line + "\n";
}

void Log::Info(std::string_view message, const LogFields& fields) const {
  Write(LogLevel::kInfo, message, fields);
}

void Log::Error(std::string_view message, const LogFields& fields) const {
  Write(LogLevel::kError, message, fields);
}

void Log::Write(LogLevel level, std::string_view message, const LogFields& fields) const {
  const double now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  const std::string line = FormatLogLine(format_, level, now, message, fields);
  std::fwrite(line.data(), 1, line.size(), file_);
  std::fflush(file_);
}

}  // namespace hydrant::server
