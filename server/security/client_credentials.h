// How the client commands reach a server: plainly, by TLS, with a token.

#ifndef HYDRANT_SERVER_SECURITY_CLIENT_CREDENTIALS_H_
#define HYDRANT_SERVER_SECURITY_CLIENT_CREDENTIALS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace CLI {
class App;
}
namespace grpc {
class Channel;
class ChannelArguments;
}  // namespace grpc

namespace hydrant::server {

struct ClientSecurity {
  bool tls = false;         // also when one of the next four is given
  std::string ca;           // PEM file of the server's CA; empty: the system's
  std::string cert, key;    // PEM files, for a server that asks for a certificate
  std::string server_name;  // in the server's certificate; empty: the address's host
  std::string token_file;   // empty: no token, or the environment's HYDRANT_TOKEN
};

// Adds --tls, --tls_ca, --tls_cert, --tls_key, --tls_server_name and --token_file.
void AddClientSecurityFlags(CLI::App& app, ClientSecurity& security);

// A channel that connects when it is first used. Errors name the file that cannot be read; a token
// without TLS goes to a loopback address or a unix socket only. Thread-safe.
absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeChannel(const std::string& address,
                                                           const ClientSecurity& security,
                                                           grpc::ChannelArguments arguments);

}  // namespace hydrant::server

#endif  // HYDRANT_SERVER_SECURITY_CLIENT_CREDENTIALS_H_
