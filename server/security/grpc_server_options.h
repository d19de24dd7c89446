// How the gRPC port is reached, and by whom: TLS, tokens, limits. Set by flags of `serve`.

#ifndef HYDRANT_SERVER_SECURITY_GRPC_SERVER_OPTIONS_H_
#define HYDRANT_SERVER_SECURITY_GRPC_SERVER_OPTIONS_H_

#include <cstdint>
#include <string>

#include "server/security/tls_files.h"

namespace CLI {
class App;
}

namespace hydrant::server {

struct GrpcServerOptions {
  TlsFiles tls;
  std::string auth_tokens;  // a file for AuthTokens; empty: everybody may call
  bool health_needs_token = false;
  std::string health_listen = "off";  // plain text, health alone; for probes that know no TLS

  int64_t max_message_bytes = 16 << 20;   // a request; answers have no limit
  int64_t max_metadata_bytes = 16 << 10;  // all headers of a call
  int32_t max_connections = 0;            // at once; 0: what the system allows, up to 10,000
  int32_t max_streams = 4096;             // of a connection, at once; a client's other calls wait
  double max_connection_idle = 0;         // seconds; 0: for ever
  double max_connection_age = 0;          // seconds until a client has to connect anew; 0: never
};

// Adds a flag for each.
void AddGrpcServerFlags(CLI::App& app, GrpcServerOptions& options);
// For when all are parsed. Throws CLI::ValidationError.
void CheckLimits(const GrpcServerOptions& options);

}  // namespace hydrant::server

#endif  // HYDRANT_SERVER_SECURITY_GRPC_SERVER_OPTIONS_H_
