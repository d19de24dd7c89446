// The credentials of the gRPC port: TLS, whose files are watched, and the tokens' door. Includes
// gRPC: for grpc_server.cc only.

#ifndef HYDRANT_SERVER_SECURITY_SERVER_CREDENTIALS_H_
#define HYDRANT_SERVER_SECURITY_SERVER_CREDENTIALS_H_

#include <grpcpp/security/server_credentials.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/log.h"
#include "server/security/grpc_server_options.h"

namespace hydrant::server {

// For what listens on `address`. Tokens without TLS are refused but for a unix socket or a loopback
// address: there they cannot be read on the way. `on_unauthenticated`: a call was turned away.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(
    const GrpcServerOptions& options, const std::string& address, const Log& log,
    std::function<void()> on_unauthenticated);

}  // namespace hydrant::server

#endif  // HYDRANT_SERVER_SECURITY_SERVER_CREDENTIALS_H_
