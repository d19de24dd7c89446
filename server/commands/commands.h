// The commands of the binary. Each takes what follows its name on the command line and returns the
// process's exit code: 0, 1 for a failure, 2 for a wrong command line (`bench` has more). Errors go
// to stderr.

#ifndef HYDRANT_SERVER_COMMANDS_COMMANDS_H_
#define HYDRANT_SERVER_COMMANDS_COMMANDS_H_

#include <string>
#include <vector>

namespace hydrant::server {

using Arguments = std::vector<std::string>;

int Serve(const Arguments& arguments);
int Generate(const Arguments& arguments);
int Tokenize(const Arguments& arguments);
int Explain(const Arguments& arguments);
int Inspect(const Arguments& arguments);
int Bench(const Arguments& arguments);
int Version(const Arguments& arguments);

}  // namespace hydrant::server

#endif  // HYDRANT_SERVER_COMMANDS_COMMANDS_H_
