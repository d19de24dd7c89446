#include "server/security/server_credentials.h"

#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/security/auth_door.h"
#include "server/security/local_address.h"

namespace hydrant::server {
namespace {

using grpc::experimental::FileWatcherCertificateProvider;

constexpr unsigned kLookAgainSeconds = 1;

std::shared_ptr<grpc::ServerCredentials> TlsCredentials(const TlsFiles& files) {
  grpc::experimental::TlsServerCredentialsOptions tls(
      std::make_shared<FileWatcherCertificateProvider>(files.key, files.cert, files.client_ca,
                                                       kLookAgainSeconds));
  tls.watch_identity_key_cert_pairs();
  if (!files.client_ca.empty()) {
    tls.watch_root_certs();
    tls.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  return grpc::experimental::TlsServerCredentials(tls);
}

// Without TLS. What is insecure to gRPC takes no door.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> PlainCredentials(
    const GrpcServerOptions& options, const std::string& address) {
  if (options.auth_tokens.empty()) return grpc::InsecureServerCredentials();
  if (const auto local = LocalConnectTypeOf(address)) {
    return grpc::experimental::LocalServerCredentials(*local);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--auth_tokens needs --tls_cert and --tls_key where others can listen: without "
                   "them it takes a loopback address or a unix socket, not ",
                   address));
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(
    const GrpcServerOptions& options, const std::string& address, const Log& log,
    std::function<void()> on_unauthenticated) {
  std::shared_ptr<grpc::ServerCredentials> credentials;
  if (options.tls.given()) {
    if (absl::Status status = CheckTlsFiles(options.tls); !status.ok()) return status;
    credentials = TlsCredentials(options.tls);
  } else {
    auto plain = PlainCredentials(options, address);
    if (!plain.ok()) return plain.status();
    credentials = *std::move(plain);
  }
  if (options.auth_tokens.empty()) return credentials;
  auto tokens = AuthTokens::Open(options.auth_tokens, log);
  if (!tokens.ok()) return tokens.status();
  credentials->SetAuthMetadataProcessor(std::make_shared<AuthDoor>(
      *std::move(tokens), options.health_needs_token, std::move(on_unauthenticated)));
  return credentials;
}

}  // namespace hydrant::server
