// An address that a gRPC server listens on, through a ConnectionListener. Includes gRPC: for
// grpc_server.cc and health_port.cc only.

#ifndef HYDRANT_SERVER_GRPC_PORT_H_
#define HYDRANT_SERVER_GRPC_PORT_H_

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/security/connection_listener.h"

namespace hydrant::server {

class GrpcPort {
 public:
  // Binds, and adds itself to what `builder` builds.
  static absl::StatusOr<std::unique_ptr<GrpcPort>> Add(
      grpc::ServerBuilder& builder, const std::string& address,
      std::shared_ptr<grpc::ServerCredentials> credentials);

  // Once the server runs. See ConnectionListener::Start.
  absl::Status Start(int max_connections);
  // Before the server shuts down.
  void Stop() { listener_->Stop(); }
  int port() const { return listener_->port(); }

 private:
  GrpcPort() = default;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  std::unique_ptr<ConnectionListener> listener_;  // goes first
};

}  // namespace hydrant::server

#endif  // HYDRANT_SERVER_GRPC_PORT_H_
