#include "server/security/auth_door.h"

#include <string_view>

namespace hydrant::server {
namespace {

constexpr char kHealth[] = "/grpc.health.v1.Health/";

std::string_view View(grpc::string_ref text) { return {text.data(), text.size()}; }

}  // namespace

grpc::Status AuthDoor::Process(const InputMetadata& metadata, grpc::AuthContext*, OutputMetadata*,
                               OutputMetadata*) {
  if (!health_needs_token_) {
    const auto path = metadata.find(":path");
    if (path != metadata.end() && path->second.starts_with(kHealth)) return grpc::Status::OK;
  }
  const auto [first, end] = metadata.equal_range("authorization");
  const char* message = "authorization: the token is not known here";
  if (first == end) {
    message = "authorization: missing; this server takes \"Bearer <token>\"";
  } else if (std::next(first) != end) {
    message = "authorization: more than one";
  } else if (tokens_->NameOf(View(first->second))) {
    return grpc::Status::OK;
  }
  on_refused_();
  return grpc::Status(grpc::StatusCode::UNAUTHENTICATED, message);
}

}  // namespace hydrant::server
