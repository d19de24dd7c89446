// Times as people write them: "200ms", "1.5s", "2m".

#ifndef HYDRANT_SERVER_DURATION_TEXT_H_
#define HYDRANT_SERVER_DURATION_TEXT_H_

#include <optional>
#include <string>
#include <string_view>

namespace hydrant::server {

// Seconds: a number and an optional unit (us, ms, s, m, h; none: seconds). nullopt for anything
// else, negative numbers, or more than a year.
std::optional<double> ParseDuration(std::string_view text);

// "200ms", "1.5s": ParseDuration reads it again.
std::string FormatDuration(double seconds);

}  // namespace hydrant::server

#endif  // HYDRANT_SERVER_DURATION_TEXT_H_
