#include "server/health_port.h"

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <chrono>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/listen_address.h"

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
  std::unique_ptr<grpc::Server> server;  // goes first
  int port = 0;
};

HealthPort::HealthPort() = default;
HealthPort::~HealthPort() {
  if (impl_->server) impl_->server->Shutdown(std::chrono::system_clock::now());
}

absl::StatusOr<std::unique_ptr<HealthPort>> HealthPort::Start(const std::string& address,
                                                              Health::CallbackService& health) {
  if (absl::Status status = CheckListenAddress(address); !status.ok()) return status;
  auto port = std::unique_ptr<HealthPort>(new HealthPort);
  port->impl_ = std::make_unique<Impl>(health);
  Impl& impl = *port->impl_;
  grpc::ServerBuilder builder;
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &impl.port);
  builder.RegisterService(&impl.forwarder);
  impl.server = builder.BuildAndStart();
  if (impl.server) return port;
  return absl::UnavailableError(
      absl::StrCat("cannot listen on ", address, ": ", WhyCannotListen(address)));
}

int HealthPort::port() const { return impl_->port; }

}  // namespace hydrant::server
