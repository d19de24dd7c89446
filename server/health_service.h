// grpc.health.v1.Health for the server as a whole ("") and for "hydrant.v1.Generation", which share
// one status. Includes gRPC: for grpc_server.cc only.

#ifndef HYDRANT_SERVER_HEALTH_SERVICE_H_
#define HYDRANT_SERVER_HEALTH_SERVICE_H_

#include <memory>
#include <mutex>
#include <set>

#include "wire/health.grpc.pb.h"

namespace hydrant::server {

class HealthService final : public grpc::health::v1::Health::CallbackService {
 public:
  HealthService();
  ~HealthService() override;

  // NOT_SERVING at first. From any thread.
  void SetServing(bool serving);
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
  bool serving_ = false;
  bool shut_down_ = false;
  std::set<std::shared_ptr<Watcher>> watchers_;
};

}  // namespace hydrant::server

#endif  // HYDRANT_SERVER_HEALTH_SERVICE_H_
