// What gRPC and Protobuf themselves have to say goes into the server's log, so that every line
// there has one form.

#ifndef HYDRANT_SERVER_LIBRARY_LOG_H_
#define HYDRANT_SERVER_LIBRARY_LOG_H_

#include "server/log.h"

namespace hydrant::server {

// From now on, for the whole process: their lines are messages "gRPC" and "Protobuf" on stderr, in
// this format, with place and text. They are of level info, also what they call errors: most tell
// of a client that misbehaved. Which lines of gRPC there are is GRPC_VERBOSITY's.
void SetLibraryLog(LogFormat format);

}  // namespace hydrant::server

#endif  // HYDRANT_SERVER_LIBRARY_LOG_H_
