#include "server/listen_address.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace hydrant::server {

HostAndPort SplitListenAddress(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return {address, ""};
  HostAndPort parts{address.substr(0, colon), address.substr(colon + 1)};
  if (parts.host.size() >= 2 && parts.host.front() == '[' && parts.host.back() == ']') {
    parts.host = parts.host.substr(1, parts.host.size() - 2);
  }
  return parts;
}

absl::Status CheckListenAddress(const std::string& address) {
  const std::string port = SplitListenAddress(address).port;
  uint16_t number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (!port.empty() && error == std::errc() && end == port.data() + port.size()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("cannot listen on '", address,
                   "': an address is a host and a port from 0 to 65535, such as 0.0.0.0:50051"));
}

std::string WhyCannotListen(const std::string& address) {
  const auto [host, port] = SplitListenAddress(address);
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error =
      getaddrinfo(host.empty() ? nullptr : host.c_str(), port.c_str(), &hints, &found);
  if (error != 0) return gai_strerror(error);

  std::string reason = "the address was refused, though the system would take it now";
  for (const addrinfo* info = found; info != nullptr; info = info->ai_next) {
    const int fd = socket(info->ai_family, info->ai_socktype | SOCK_CLOEXEC, info->ai_protocol);
    if (fd < 0) {
      reason = std::strerror(errno);
      continue;
    }
    const int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, info->ai_addr, info->ai_addrlen) != 0 || listen(fd, 1) != 0) {
      reason = std::strerror(errno);
    }
    close(fd);
  }
  freeaddrinfo(found);
  return reason;
}

}  // namespace hydrant::server
