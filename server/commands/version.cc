#include <cstdio>

#include "server/commands/commands.h"

namespace hydrant::server {

int Version(const Arguments& arguments) {
  std::printf("hydrant %s\n", HYDRANT_VERSION);
  return 0;
}

}  // namespace hydrant::server
