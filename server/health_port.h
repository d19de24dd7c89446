// A second gRPC port in plain text that serves health alone: for probes that know neither TLS nor
// tokens, as Kubernetes' own do not.

#ifndef HYDRANT_SERVER_HEALTH_PORT_H_
#define HYDRANT_SERVER_HEALTH_PORT_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "wire/health.grpc.pb.h"

namespace hydrant::server {

class HealthPort {
 public:
  // Answers as `health` does, which outlives it. Errors name the address and the reason.
  static absl::StatusOr<std::unique_ptr<HealthPort>> Start(
      const std::string& address, grpc::health::v1::Health::CallbackService& health);
  // After `health` has ended its watches.
  ~HealthPort();

  int port() const;

 private:
  HealthPort();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hydrant::server

#endif  // HYDRANT_SERVER_HEALTH_PORT_H_
