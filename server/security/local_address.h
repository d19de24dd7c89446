// Addresses that nobody outside this machine reaches. gRPC's "local" credentials, which are plain
// text, check the same of each connection.

#ifndef HYDRANT_SERVER_SECURITY_LOCAL_ADDRESS_H_
#define HYDRANT_SERVER_SECURITY_LOCAL_ADDRESS_H_

#include <grpc/grpc_security_constants.h>

#include <optional>
#include <string>

namespace hydrant::server {

// Of "unix:/path", and of "host:port" where the host is a loopback address or localhost.
std::optional<grpc_local_connect_type> LocalConnectTypeOf(const std::string& address);

}  // namespace hydrant::server

#endif  // HYDRANT_SERVER_SECURITY_LOCAL_ADDRESS_H_
