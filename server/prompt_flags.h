// The prompt of a command line: an argument or standard input, plain or as a user's message. Of
// `generate` and `explain`. Includes CLI11: for the sources of commands only.

#ifndef HYDRANT_SERVER_PROMPT_FLAGS_H_
#define HYDRANT_SERVER_PROMPT_FLAGS_H_

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "hydrant/v1/generation.pb.h"

namespace hydrant::server {

struct PromptFlags {
  std::optional<std::string> prompt;
  bool chat = false;
  std::optional<std::string> system;
};

// Adds --prompt, also as the argument without a name, --chat and --system.
void AddPromptFlags(CLI::App& app, PromptFlags& flags);

// Sets the request's input. Reads standard input to its end when no prompt was given.
void FillInput(const PromptFlags& flags, v1::GenerateRequest& request);

}  // namespace hydrant::server

#endif  // HYDRANT_SERVER_PROMPT_FLAGS_H_
