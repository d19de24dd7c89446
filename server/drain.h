// The orderly end of a server: what runs may finish, then everything is ended.

#ifndef HYDRANT_SERVER_DRAIN_H_
#define HYDRANT_SERVER_DRAIN_H_

#include <chrono>

#include "engine/engine.h"
#include "server/grpc_server.h"
#include "server/metrics.h"

namespace hydrant::server {

// Health says NOT_SERVING and new requests get UNAVAILABLE from the first moment. Running requests
// have `timeout`; what is left then ends with UNAVAILABLE. Returns when the server is shut down.
void Drain(GrpcServer& server, engine::Engine& engine, const Metrics& metrics,
           std::chrono::duration<double> timeout);

}  // namespace hydrant::server

#endif  // HYDRANT_SERVER_DRAIN_H_
