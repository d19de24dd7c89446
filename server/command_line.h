// What the commands' flags have in common. Includes CLI11: for the sources of commands only.
//
// A flag of `serve` is also read from the environment (--max_queue: HYDRANT_MAX_QUEUE) and from the
// file of --config ("max_queue = 100"). The command line wins, then the environment, then the file;
// what wins also puts out the flags that it excludes.

#ifndef HYDRANT_SERVER_COMMAND_LINE_H_
#define HYDRANT_SERVER_COMMAND_LINE_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "server/flag_setting.h"

namespace hydrant::server {

// Parses `args` (without the program's and the command's name). An exit code when the command is
// done with that: 0 after --help, 2 after an error, which was printed to stderr.
std::optional<int> ParseFlags(CLI::App& app, std::vector<std::string> args);

// Adds `--name=value` for each option of `app` that the environment has, not empty, and `args` has
// not, nor a flag that excludes it.
std::vector<std::string> WithEnvironment(const CLI::App& app, std::vector<std::string> args);

// Adds --config FILE.
void AddConfigFile(CLI::App& app);

// Every option in effect, in the order of --help.
std::vector<FlagSetting> EffectiveFlags(const CLI::App& app);

// As CLI::Range, but not-a-number is outside.
CLI::Validator NumberIn(double low, double high);

// A size in bytes, with units. `target`'s value is the default, shown as `default_text`.
CLI::Option* AddByteSize(CLI::App& app, const std::string& name, int64_t& target,
                         const std::string& default_text, const std::string& help);

// Flags that say how a model is loaded: of `serve` and of the local commands.
void AddModelFlags(CLI::App& app, engine::EngineOptions& options);

// Adds --eviction: full, window, streaming, h2o.
CLI::Option* AddEvictionPolicy(CLI::App& app, std::function<void(engine::EvictionPolicyKind)> set,
                               const std::string& help);

}  // namespace hydrant::server

#endif  // HYDRANT_SERVER_COMMAND_LINE_H_
