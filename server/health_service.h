// grpc.health.v1.Health. What is asked is told by the service's name:
//   "", "readiness", and both services that take requests, by their full names
//                                               requests are taken: not while loading or draining
//   "startup"                                   the model is loaded; from then on for good
//   "liveness"                                  not dead: NOT_SERVING calls for a new process
// Includes gRPC: for grpc_server.cc only.

#ifndef HYDRANT_SERVER_HEALTH_SERVICE_H_
#define HYDRANT_SERVER_HEALTH_SERVICE_H_

#include <array>
#include <memory>
#include <mutex>
#include <set>

#include "wire/health.grpc.pb.h"

namespace hydrant::server {

class HealthService final : public grpc::health::v1::Health::CallbackService {
 public:
  HealthService();
  ~HealthService() override;

  enum class Aspect { kReadiness, kStartup, kLiveness };
  // At first only liveness is SERVING. From any thread.
  void Set(Aspect aspect, bool serving);
  // Ends all watches, so that the server can shut down; later ones end at once.
  void Shutdown();

  grpc::ServerUnaryReactor* Check(grpc::CallbackServerContext* context,
                                  const grpc::health::v1::HealthCheckRequest* request,
                                  grpc::health::v1::HealthCheckResponse* response) override;
  grpc::ServerWriteReactor<grpc::health::v1::HealthCheckResponse>* Watch(
      grpc::CallbackServerContext* context,
      const grpc::health::v1::HealthCheckRequest* request) override;

 private:
  class Watcher;

  std::mutex mutex_;
  std::array<bool, 3> serving_ = {false, false, true};  // by Aspect
  bool shut_down_ = false;
  std::set<std::shared_ptr<Watcher>> watchers_;
};

}  // namespace hydrant::server

#endif  // HYDRANT_SERVER_HEALTH_SERVICE_H_
