// The gRPC side as a whole: Generation, VllmEngine, health and reflection on one port. Listens from
// the start; answers UNAVAILABLE, and health NOT_SERVING, until the engine is there.

#ifndef HYDRANT_SERVER_GRPC_SERVER_H_
#define HYDRANT_SERVER_GRPC_SERVER_H_

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/engine.h"
#include "server/generation_options.h"
#include "server/metrics.h"
#include "server/security/grpc_server_options.h"

namespace hydrant::server {

class GrpcServer {
 public:
  // `address`: "host:port" (port 0: any free one), or "unix:/path". Errors name it and the reason.
  // `metrics`, and what `generation` points to, outlive the server.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> Start(const std::string& address,
                                                           Metrics& metrics,
                                                           const GenerationOptions& generation = {},
                                                           const GrpcServerOptions& options = {});
  ~GrpcServer();

  int port() const;
  int health_port() const;  // 0: none

  // The model is loaded; requests are answered from now on.
  void SetEngine(std::shared_ptr<engine::Engine> engine);
  // What health says (see HealthService): whether requests are taken, and whether the server can
  // still do its work at all. The model's being there is told by SetEngine.
  void SetServing(bool serving);
  void SetAlive(bool alive);

  // Waits for open calls until the deadline, then cancels what is left. The engine must still be
  // there: streams end when it has ended their requests. Called once, before the destructor.
  void Shutdown(std::chrono::system_clock::time_point deadline);

 private:
  GrpcServer();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hydrant::server

#endif  // HYDRANT_SERVER_GRPC_SERVER_H_
