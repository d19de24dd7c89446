// Flags that fill a request's messages: of `generate` and `bench`. A field stays unset unless its
// flag is given, but for what the message holds already. Includes CLI11: for the sources of
// commands only.

#ifndef HYDRANT_SERVER_REQUEST_FLAGS_H_
#define HYDRANT_SERVER_REQUEST_FLAGS_H_

#include <CLI/CLI.hpp>
#include <string>
#include <type_traits>

#include "hydrant/v1/generation.pb.h"

namespace hydrant::server {

// A flag whose field stays unset unless it is given.
template <typename T, typename Set>
CLI::Option* AddField(CLI::App& app, const std::string& name, Set set, const std::string& help) {
  return app.add_option_function<T>(name, set, help)
      ->type_name(std::is_floating_point_v<T> ? "FLOAT"
                  : std::is_integral_v<T>     ? "INT"
                                              : "TEXT");
}

// All but the seed.
void AddSamplingFlags(CLI::App& app, v1::SamplingParams& sampling);

void AddEvictionFlags(CLI::App& app, v1::EvictionParams& eviction);

}  // namespace hydrant::server

#endif  // HYDRANT_SERVER_REQUEST_FLAGS_H_
