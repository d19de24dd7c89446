#include "server/grpc_port.h"

#include <utility>

namespace hydrant::server {

absl::StatusOr<std::unique_ptr<GrpcPort>> GrpcPort::Add(
    grpc::ServerBuilder& builder, const std::string& address,
    std::shared_ptr<grpc::ServerCredentials> credentials) {
  auto listener = ConnectionListener::Bind(address);
  if (!listener.ok()) return listener.status();
  auto port = std::unique_ptr<GrpcPort>(new GrpcPort);
  port->listener_ = *std::move(listener);
  port->acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      std::move(credentials));
  return port;
}

absl::Status GrpcPort::Start(int max_connections) {
  return listener_->Start(max_connections, [this](int listen_fd, int fd) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
    connection.listener_fd = listen_fd;
    connection.fd = fd;
    acceptor_->HandleNewConnection(&connection);
  });
}

}  // namespace hydrant::server
