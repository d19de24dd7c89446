#include "server/duration_text.h"

#include <array>
#include <charconv>
#include <utility>

#include "absl/strings/str_cat.h"

namespace hydrant::server {
namespace {

constexpr std::array<std::pair<std::string_view, double>, 6> kUnits = {
    {{"", 1}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}}};
constexpr double kYear = 366.0 * 24 * 3600;

}  // namespace

std::optional<double> ParseDuration(std::string_view text) {
  double number;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc() || !(number >= 0)) return std::nullopt;
  const std::string_view unit = text.substr(end - text.data());
  for (const auto& [name, factor] : kUnits) {
    if (unit == name && number * factor <= kYear) return number * factor;
  }
  return std::nullopt;
}

std::string FormatDuration(double seconds) {
  return seconds < 1 ? absl::StrCat(seconds * 1e3, "ms") : absl::StrCat(seconds, "s");
}

}  // namespace hydrant::server
