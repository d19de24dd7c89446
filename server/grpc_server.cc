#include "server/grpc_server.h"

#include <grpc/grpc.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/generation_service.h"
#include "server/health_service.h"
#include "server/listen_address.h"

namespace hydrant::server {
namespace {

constexpr int kSeconds = 1000;

void SetKeepalive(grpc::ServerBuilder& builder) {
  // Clients may ping every 10 s, also without a call; 5 s leaves room for jitter.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5 * kSeconds);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  // A client that vanished without a word (no FIN) holds its KV no longer than this.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 20 * kSeconds);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10 * kSeconds);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
}

}  // namespace

struct GrpcServer::Impl {
  Impl(Metrics& metrics, const GenerationOptions& options) : generation(metrics, options) {}
  GenerationService generation;
  HealthService health;
  std::unique_ptr<grpc::Server> server;  // goes first
  int port = 0;
};

GrpcServer::GrpcServer() = default;
GrpcServer::~GrpcServer() = default;

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Start(const std::string& address,
                                                              Metrics& metrics,
                                                              const GenerationOptions& generation) {
  if (address.rfind("unix:", 0) != 0) {
    if (absl::Status status = CheckListenAddress(address); !status.ok()) return status;
  }
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  auto server = std::unique_ptr<GrpcServer>(new GrpcServer);
  server->impl_ = std::make_unique<Impl>(metrics, generation);
  Impl& impl = *server->impl_;

  grpc::ServerBuilder builder;
  // Two servers on one port would each get some of the calls.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  SetKeepalive(builder);
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &impl.port);
  builder.RegisterService(&impl.generation);
  builder.RegisterService(&impl.health);
  impl.server = builder.BuildAndStart();
  if (!impl.server) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", address, ": ", WhyCannotListen(address)));
  }
  return server;
}

int GrpcServer::port() const { return impl_->port; }

void GrpcServer::SetEngine(std::shared_ptr<engine::Engine> engine) {
  impl_->generation.SetEngine(std::move(engine));
  impl_->health.Set(HealthService::Aspect::kStartup, true);
}

void GrpcServer::SetServing(bool serving) {
  impl_->health.Set(HealthService::Aspect::kReadiness, serving);
}

void GrpcServer::SetAlive(bool alive) {
  impl_->health.Set(HealthService::Aspect::kLiveness, alive);
}

void GrpcServer::Shutdown(std::chrono::system_clock::time_point deadline) {
  impl_->health.Shutdown();
  impl_->server->Shutdown(deadline);
}

}  // namespace hydrant::server
