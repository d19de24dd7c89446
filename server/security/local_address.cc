#include "server/security/local_address.h"

#include <arpa/inet.h>

namespace hydrant::server {

std::optional<grpc_local_connect_type> LocalConnectTypeOf(const std::string& address) {
  if (address.rfind("unix:", 0) == 0) return UDS;
  const std::string host = address.substr(0, address.rfind(':'));
  in_addr v4;
  if (host == "localhost" || host == "[::1]") return LOCAL_TCP;
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1 && ntohl(v4.s_addr) >> 24 == 127) return LOCAL_TCP;
  return std::nullopt;
}

}  // namespace hydrant::server
