#include "server/grpc_server.h"

#include <grpc/grpc.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "server/engine_door.h"
#include "server/generation_service.h"
#include "server/grpc_port.h"
#include "server/health_port.h"
#include "server/health_service.h"
#include "server/security/server_credentials.h"
#include "server/vllm_engine_service.h"

namespace hydrant::server {
namespace {

constexpr int kSeconds = 1000;
constexpr int64_t kMetadataRoom = 4;

void SetKeepalive(grpc::ServerBuilder& builder) {
  // Clients may ping every 10 s, also without a call; 5 s leaves room for jitter.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5 * kSeconds);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  // A client that vanished without a word (no FIN) holds its KV no longer than this.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 20 * kSeconds);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10 * kSeconds);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
}

void SetLimits(grpc::ServerBuilder& builder, const GrpcServerOptions& options) {
  builder.SetMaxReceiveMessageSize(static_cast<int>(options.max_message_bytes));
  // A call whose headers pass gRPC's own limit can take the others of its connection with it: they
  // fail with it, or the connection breaks. So gRPC's is further out than the one that calls are
  // refused by, one at a time.
  builder.AddChannelArgument(
      GRPC_ARG_MAX_METADATA_SIZE,
      static_cast<int>(std::min<int64_t>(kMetadataRoom * options.max_metadata_bytes,
                                         std::numeric_limits<int>::max())));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options.max_streams);
  // Who connects and then says nothing.
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 10 * kSeconds);
  const auto seconds = [&](const char* name, double value) {
    if (value > 0) builder.AddChannelArgument(name, static_cast<int>(value * kSeconds));
  };
  seconds(GRPC_ARG_MAX_CONNECTION_IDLE_MS, options.max_connection_idle);
  seconds(GRPC_ARG_MAX_CONNECTION_AGE_MS, options.max_connection_age);
}

}  // namespace

struct GrpcServer::Impl {
  Impl(Metrics& metrics, const GenerationOptions& generation_options,
       const GrpcServerOptions& options)
      : door(metrics, generation_options, options.max_metadata_bytes) {}
  ~Impl() {
    if (port) port->Stop();
  }
  EngineDoor door;
  GenerationService generation{door};
  std::unique_ptr<grpc::Service> vllm_engine = MakeVllmEngineService(door);
  HealthService health;
  std::unique_ptr<HealthPort> health_port;
  std::unique_ptr<GrpcPort> port;
  std::unique_ptr<grpc::Server> server;  // goes first
};

GrpcServer::GrpcServer() = default;
GrpcServer::~GrpcServer() = default;

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Start(const std::string& address,
                                                              Metrics& metrics,
                                                              const GenerationOptions& generation,
                                                              const GrpcServerOptions& options) {
  const Log log = generation.log != nullptr ? *generation.log : Log();
  auto credentials = MakeServerCredentials(options, address, log,
                                           [&metrics] { metrics.OnRejected("unauthenticated"); });
  if (!credentials.ok()) return credentials.status();
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  auto server = std::unique_ptr<GrpcServer>(new GrpcServer);
  server->impl_ = std::make_unique<Impl>(metrics, generation, options);
  Impl& impl = *server->impl_;

  grpc::ServerBuilder builder;
  SetLimits(builder, options);
  SetKeepalive(builder);
  auto port = GrpcPort::Add(builder, address, *std::move(credentials));
  if (!port.ok()) return port.status();
  impl.port = *std::move(port);
  builder.RegisterService(&impl.generation);
  builder.RegisterService(impl.vllm_engine.get());
  builder.RegisterService(&impl.health);
  impl.server = builder.BuildAndStart();
  if (!impl.server) return absl::InternalError("gRPC did not start its server");
  if (absl::Status status = impl.port->Start(options.max_connections); !status.ok()) return status;
  if (options.health_listen != "off") {
    auto started = HealthPort::Start(options.health_listen, impl.health);
    if (!started.ok()) return started.status();
    impl.health_port = *std::move(started);
  }
  return server;
}

int GrpcServer::port() const { return impl_->port->port(); }
int GrpcServer::health_port() const { return impl_->health_port ? impl_->health_port->port() : 0; }

void GrpcServer::SetEngine(std::shared_ptr<engine::Engine> engine) {
  impl_->door.SetEngine(std::move(engine));
  impl_->health.Set(HealthService::Aspect::kStartup, true);
}

void GrpcServer::SetServing(bool serving) {
  impl_->health.Set(HealthService::Aspect::kReadiness, serving);
}

void GrpcServer::SetAlive(bool alive) {
  impl_->health.Set(HealthService::Aspect::kLiveness, alive);
}

void GrpcServer::Shutdown(std::chrono::system_clock::time_point deadline) {
  impl_->port->Stop();
  impl_->health.Shutdown();
  impl_->server->Shutdown(deadline);
  impl_->health_port.reset();
}

}  // namespace hydrant::server
