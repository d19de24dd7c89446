// hydrant: the command line. Finds the command and hands it the rest.

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "server/commands/commands.h"

namespace {

using hydrant::server::Arguments;

struct Command {
  const char* name;
  int (*run)(const Arguments&);
  const char* help;
};

constexpr Command kCommands[] = {
    {"serve", hydrant::server::Serve, "serve a model over gRPC, with metrics for Prometheus"},
    {"generate", hydrant::server::Generate, "answer one prompt, here or from a server"},
    {"tokenize", hydrant::server::Tokenize, "standard input to token ids; render a chat template"},
    {"explain", hydrant::server::Explain, "what eviction keeps of one prompt, as an HTML page"},
    {"inspect", hydrant::server::Inspect, "what a checkpoint is, and what fits in a KV cache"},
    {"bench", hydrant::server::Bench, "drive a server and report latencies and throughput"},
    {"version", hydrant::server::Version, "print the version"},
};

void PrintHelp(FILE* out) {
  std::fprintf(out,
               "Hydrant: a gRPC server for language models whose KV cache has a ceiling.\n\n"
               "usage: hydrant COMMAND [FLAGS]      hydrant COMMAND --help for its flags\n\n");
  for (const Command& command : kCommands) {
    std::fprintf(out, "  %-10s%s\n", command.name, command.help);
  }
  std::fprintf(
      out,
      "\nTo start:\n"
      "  hydrant serve --model model.gguf\n"
      "  hydrant generate --server localhost:50051 --chat \"Why is the sky blue?\"\n"
      "  hydrant generate --model model.gguf --eviction h2o --budget_tokens 256 \"Once\"\n");
}

// `exit_code`, or an error when what was printed did not all arrive.
int CheckOutput(int exit_code) {
  if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return exit_code;
  std::fprintf(stderr, "hydrant: standard output cannot be written: full, or closed\n");
  return exit_code != 0 ? exit_code : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  if (arguments.empty()) {
    PrintHelp(stderr);
    return 2;
  }
  const std::string_view name = arguments[0];
  if (name == "--help" || name == "-h" || name == "help") {
    PrintHelp(stdout);
    return CheckOutput(0);
  }
  if (name == "--version") return CheckOutput(hydrant::server::Version({}));
  for (const Command& command : kCommands) {
    if (name != command.name) continue;
    return CheckOutput(command.run({arguments.begin() + 1, arguments.end()}));
  }
  std::fprintf(stderr, "hydrant: unknown command '%s'; hydrant --help lists them\n",
               arguments[0].c_str());
  return 2;
}
