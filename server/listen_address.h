// Addresses to listen on: "host:port", "[::1]:port". Checked before gRPC and civetweb see them
// (gRPC takes port 99999 for 34463), and with the reason in words when those cannot listen, which
// they keep to themselves.

#ifndef HYDRANT_SERVER_LISTEN_ADDRESS_H_
#define HYDRANT_SERVER_LISTEN_ADDRESS_H_

#include <string>

#include "absl/status/status.h"

namespace hydrant::server {

struct HostAndPort {
  std::string host;  // without brackets
  std::string port;
};
HostAndPort SplitListenAddress(const std::string& address);

// INVALID_ARGUMENT unless `address` is a host and a port up to 65535.
absl::Status CheckListenAddress(const std::string& address);

// Tries to bind `address`, which was checked, itself and tells what the system says.
std::string WhyCannotListen(const std::string& address);

}  // namespace hydrant::server

#endif  // HYDRANT_SERVER_LISTEN_ADDRESS_H_
