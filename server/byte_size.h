// Sizes as people write them: "100MB", "4GiB", "65536".

#ifndef HYDRANT_SERVER_BYTE_SIZE_H_
#define HYDRANT_SERVER_BYTE_SIZE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace hydrant::server {

// A number (a fraction is allowed before a unit) and an optional unit: B, KB, MB, GB, TB (powers of
// 1000), KiB, MiB, GiB, TiB (powers of 1024), in any case. nullopt for anything else, or beyond
// 2^63.
std::optional<int64_t> ParseByteSize(std::string_view text);

// "1.5 GiB", "640 B".
std::string FormatByteSize(int64_t bytes);

}  // namespace hydrant::server

#endif  // HYDRANT_SERVER_BYTE_SIZE_H_
