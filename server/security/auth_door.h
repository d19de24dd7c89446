// The door that every call of a port passes before any service sees it: reflection and services of
// later days, too. Includes gRPC: for server_credentials.cc only.

#ifndef HYDRANT_SERVER_SECURITY_AUTH_DOOR_H_
#define HYDRANT_SERVER_SECURITY_AUTH_DOOR_H_

#include <grpcpp/security/auth_metadata_processor.h>

#include <functional>
#include <memory>
#include <utility>

#include "server/security/auth_tokens.h"

namespace hydrant::server {

class AuthDoor final : public grpc::AuthMetadataProcessor {
 public:
  // `health_needs_token`: whether grpc.health.v1.Health is behind it, too. `on_refused` is called
  // on gRPC's threads and must not block.
  AuthDoor(std::shared_ptr<AuthTokens> tokens, bool health_needs_token,
           std::function<void()> on_refused)
      : tokens_(std::move(tokens)),
        health_needs_token_(health_needs_token),
        on_refused_(std::move(on_refused)) {}

  bool IsBlocking() const override { return false; }
  // UNAUTHENTICATED unless the call has exactly one header "authorization", with a known token. The
  // header stays with the call, so that a service can ask whose it is.
  grpc::Status Process(const InputMetadata& metadata, grpc::AuthContext* context,
                       OutputMetadata* consumed, OutputMetadata* response) override;

 private:
  const std::shared_ptr<AuthTokens> tokens_;
  const bool health_needs_token_;
  const std::function<void()> on_refused_;
};

}  // namespace hydrant::server

#endif  // HYDRANT_SERVER_SECURITY_AUTH_DOOR_H_
