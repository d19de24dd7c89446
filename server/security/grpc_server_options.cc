#include "server/security/grpc_server_options.h"

#include <limits>

#include "server/command_line.h"

namespace hydrant::server {
namespace {

constexpr double kMaxSeconds = 30 * 24 * 60 * 60;

void AddTlsFlags(CLI::App& app, TlsFiles& tls) {
  CLI::Option* cert = app.add_option("--tls_cert", tls.cert,
                                     "Certificate chain (PEM); with it gRPC is TLS only. Read "
                                     "again when it changes, as the next two are")
                          ->type_name("FILE");
  CLI::Option* key = app.add_option("--tls_key", tls.key, "The certificate's private key (PEM)")
                         ->type_name("FILE")
                         ->needs(cert);
  cert->needs(key);
  app.add_option("--tls_client_ca", tls.client_ca,
                 "CA certificates (PEM); with it clients must have a certificate of one of them")
      ->type_name("FILE")
      ->needs(cert);
}

void AddLimitFlags(CLI::App& app, GrpcServerOptions& options) {
  AddByteSize(app, "--max_message_bytes", options.max_message_bytes, "16MiB", "Longest request");
  AddByteSize(app, "--max_metadata_bytes", options.max_metadata_bytes, "16KiB",
              "Most bytes of a call's headers");
  app.add_option("--max_connections", options.max_connections,
                 "Most connections at once; others are closed as they come. 0: what the limit of "
                 "file descriptors leaves, at most 10000")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--max_streams", options.max_streams,
                 "Most calls at once of one connection; its others wait at the client")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--max_connection_idle", options.max_connection_idle,
                 "Seconds until a connection without a call is closed; 0: never")
      ->check(CLI::Range(0.0, kMaxSeconds))
      ->capture_default_str();
  app.add_option("--max_connection_age", options.max_connection_age,
                 "Seconds until a client is asked to connect anew, which spreads clients over new "
                 "servers; its open calls go on; 0: never")
      ->check(CLI::Range(0.0, kMaxSeconds))
      ->capture_default_str();
}

}  // namespace

void AddGrpcServerFlags(CLI::App& app, GrpcServerOptions& options) {
  AddTlsFlags(app, options.tls);
  CLI::Option* tokens =
      app.add_option("--auth_tokens", options.auth_tokens,
                     "Names and SHA-256 hashes of bearer tokens, a line each; with it every call "
                     "but health needs one. Read again when it changes")
          ->type_name("FILE");
  app.add_flag("--health_needs_token", options.health_needs_token,
               "Health is behind the token, too")
      ->needs(tokens);
  app.add_option("--health_listen", options.health_listen,
                 "Where health alone listens, in plain text, for probes that know no TLS: "
                 "host:port or off")
      ->type_name("ADDRESS")
      ->capture_default_str();
  AddLimitFlags(app, options);
}

void CheckLimits(const GrpcServerOptions& options) {
  // gRPC counts in int.
  for (const auto& [flag, bytes] : {std::pair{"--max_message_bytes", options.max_message_bytes},
                                    {"--max_metadata_bytes", options.max_metadata_bytes}}) {
    if (bytes < 1024 || bytes > std::numeric_limits<int>::max()) {
      throw CLI::ValidationError(flag, "must be from 1KiB to below 2GiB");
    }
  }
}

}  // namespace hydrant::server
