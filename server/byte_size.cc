#include "server/byte_size.h"

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <utility>

#include "absl/strings/str_format.h"

namespace hydrant::server {
namespace {

constexpr std::array<std::pair<std::string_view, double>, 10> kUnits = {{
    {"", 1},
    {"b", 1},
    {"kb", 1e3},
    {"mb", 1e6},
    {"gb", 1e9},
    {"tb", 1e12},
    {"kib", 1024.0},
    {"mib", 1024.0 * 1024},
    {"gib", 1024.0 * 1024 * 1024},
    {"tib", 1024.0 * 1024 * 1024 * 1024},
}};

}  // namespace

std::optional<int64_t> ParseByteSize(std::string_view text) {
  double number;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc() || number < 0) return std::nullopt;
  std::string_view rest = text.substr(end - text.data());
  while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
  std::string unit(rest);
  for (char& c : unit) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const auto& [name, factor] : kUnits) {
    if (unit != name) continue;
    const double bytes = number * factor;
    if (!(bytes < std::ldexp(1.0, 63))) return std::nullopt;
    if (factor == 1 && bytes != std::floor(bytes)) return std::nullopt;
    return static_cast<int64_t>(bytes);
  }
  return std::nullopt;
}

std::string FormatByteSize(int64_t bytes) {
  constexpr std::array<const char*, 4> kNames = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return absl::StrFormat("%d B", bytes);
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < kNames.size(); ++unit) value /= 1024;
  return absl::StrFormat("%.1f %s", value, kNames[unit]);
}

}  // namespace hydrant::server
