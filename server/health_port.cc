#include "server/health_port.h"

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <utility>

#include "absl/status/status.h"
#include "server/grpc_port.h"

namespace hydrant::server {
namespace {

using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

// gRPC takes a service into one server only.
class Forwarder final : public Health::CallbackService {
 public:
  explicit Forwarder(Health::CallbackService& to) : to_(to) {}
  grpc::ServerUnaryReactor* Check(grpc::CallbackServerContext* context,
                                  const HealthCheckRequest* request,
                                  HealthCheckResponse* response) override {
    return to_.Check(context, request, response);
  }
  grpc::ServerWriteReactor<HealthCheckResponse>* Watch(grpc::CallbackServerContext* context,
                                                       const HealthCheckRequest* request) override {
    return to_.Watch(context, request);
  }

 private:
  Health::CallbackService& to_;
};

}  // namespace

struct HealthPort::Impl {
  explicit Impl(Health::CallbackService& health) : forwarder(health) {}
  Forwarder forwarder;
  std::unique_ptr<GrpcPort> port;
  std::unique_ptr<grpc::Server> server;  // goes first
};

HealthPort::HealthPort() = default;
HealthPort::~HealthPort() {
  if (!impl_->server) return;
  impl_->port->Stop();
  impl_->server->Shutdown(std::chrono::system_clock::now());
}

absl::StatusOr<std::unique_ptr<HealthPort>> HealthPort::Start(const std::string& address,
                                                              Health::CallbackService& health) {
  auto port = std::unique_ptr<HealthPort>(new HealthPort);
  port->impl_ = std::make_unique<Impl>(health);
  Impl& impl = *port->impl_;
  grpc::ServerBuilder builder;
  auto added = GrpcPort::Add(builder, address, grpc::InsecureServerCredentials());
  if (!added.ok()) return added.status();
  impl.port = *std::move(added);
  builder.RegisterService(&impl.forwarder);
  impl.server = builder.BuildAndStart();
  if (!impl.server) return absl::InternalError("gRPC did not start the health port");
  if (absl::Status status = impl.port->Start(0); !status.ok()) return status;
  return port;
}

int HealthPort::port() const { return impl_->port->port(); }

}  // namespace hydrant::server
