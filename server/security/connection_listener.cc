#include "server/security/connection_listener.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/listen_address.h"

namespace hydrant::server {
namespace {

constexpr int kBacklog = 1024;
// For the model's files, scrapes of the metrics, gRPC's own and files that are read again.
constexpr int kReserve = 128;
constexpr rlim_t kMostByDefault = 10'000;
constexpr std::chrono::milliseconds kRetry(100);
// As long as gRPC waits for the answer to a ping.
constexpr int kUserTimeoutMs = 10'000;

absl::Status CannotListen(const std::string& address, const char* why) {
  return absl::UnavailableError(absl::StrCat("cannot listen on ", address, ": ", why));
}

int OpenDescriptors() {
  std::error_code error;
  return static_cast<int>(std::distance(std::filesystem::directory_iterator("/proc/self/fd", error),
                                        std::filesystem::directory_iterator()));
}

int PortOf(int fd) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

// Of the second address of a host whose first has chosen one; 0: as it is.
void SetPort(sockaddr* address, int port) {
  if (port == 0) return;
  (address->sa_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(address)->sin6_port
                                  : reinterpret_cast<sockaddr_in*>(address)->sin_port) =
      htons(static_cast<uint16_t>(port));
}

// A listening socket, or -1 with errno.
int Listen(const sockaddr* address, socklen_t size, bool both_families) {
  const int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  const int on = 1, v6_only = !both_families;
  if (address->sa_family != AF_UNIX) {
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    // Accepted sockets have these from the listener.
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &kUserTimeoutMs, sizeof(kUserTimeoutMs));
  }
  if (address->sa_family == AF_INET6) {
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6_only, sizeof(v6_only));
  }
  if (bind(fd, address, size) == 0 && listen(fd, kBacklog) == 0) return fd;
  const int error = errno;
  close(fd);
  errno = error;
  return -1;
}

}  // namespace

ConnectionListener::ConnectionListener() = default;

ConnectionListener::~ConnectionListener() {
  Stop();
  CloseAll();
  if (!unix_path_.empty()) unlink(unix_path_.c_str());
}

void ConnectionListener::CloseAll() {
  for (const int fd : fds_) close(fd);
  fds_.clear();
}

absl::StatusOr<std::unique_ptr<ConnectionListener>> ConnectionListener::Bind(
    const std::string& address) {
  constexpr char kUnix[] = "unix:";
  auto listener = std::unique_ptr<ConnectionListener>(new ConnectionListener);
  const absl::Status status = address.rfind(kUnix, 0) == 0
                                  ? listener->BindUnix(address.substr(sizeof(kUnix) - 1))
                                  : listener->BindTcp(address);
  if (!status.ok()) return status;
  return listener;
}

absl::Status ConnectionListener::BindUnix(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat("cannot listen on unix:", path,
                                                   ": a path has 1 to ",
                                                   sizeof(address.sun_path) - 1, " bytes"));
  }
  std::copy(path.begin(), path.end(), address.sun_path);
  // What a server before left behind; never a file that is something else.
  struct stat old = {};
  if (lstat(path.c_str(), &old) == 0 && S_ISSOCK(old.st_mode)) unlink(path.c_str());
  const int fd = Listen(reinterpret_cast<const sockaddr*>(&address), sizeof(address), false);
  if (fd < 0) return CannotListen("unix:" + path, std::strerror(errno));
  fds_.push_back(fd);
  unix_path_ = path;
  return absl::OkStatus();
}

absl::Status ConnectionListener::BindTcp(const std::string& address) {
  if (absl::Status status = CheckListenAddress(address); !status.ok()) return status;
  auto [host, port] = SplitListenAddress(address);
  const bool every = host.empty() || host == "0.0.0.0" || host == "::";
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(every ? nullptr : host.c_str(), port.c_str(), &hints, &found);
  if (error != 0) return CannotListen(address, gai_strerror(error));
  std::vector<addrinfo*> choices;
  for (addrinfo* choice = found; choice != nullptr; choice = choice->ai_next) {
    choices.push_back(choice);
  }
  // One IPv6 socket takes both families, where there is IPv6.
  std::stable_partition(choices.begin(), choices.end(),
                        [](const addrinfo* choice) { return choice->ai_family == AF_INET6; });
  int failure = EADDRNOTAVAIL;
  for (const addrinfo* choice : choices) {
    SetPort(choice->ai_addr, port_);
    const int fd = Listen(choice->ai_addr, choice->ai_addrlen, every);
    if (fd < 0) {
      failure = errno;
      // A host may have an address of a family that this machine has not; a taken port is final.
      if (failure != EADDRINUSE) continue;
      CloseAll();
      break;
    }
    fds_.push_back(fd);
    port_ = PortOf(fd);
    if (every) break;
  }
  freeaddrinfo(found);
  if (fds_.empty()) return CannotListen(address, std::strerror(failure));
  return absl::OkStatus();
}

absl::Status ConnectionListener::Start(int most, OnConnection on_connection) {
  const rlim_t others = static_cast<rlim_t>(OpenDescriptors() + kReserve);
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  if (most == 0 && limit.rlim_max > others) {
    most = static_cast<int>(std::min<rlim_t>(limit.rlim_max - others, kMostByDefault));
  }
  const rlim_t needed = others + static_cast<rlim_t>(most);
  if (most == 0 || needed > limit.rlim_max) {
    return absl::FailedPreconditionError(absl::StrCat(
        "--max_connections: ", std::max(1, most), " and what else is open need ", needed,
        " file descriptors, and the limit is ", limit.rlim_max, " (ulimit -n, LimitNOFILE)"));
  }
  if (limit.rlim_cur < needed) {
    limit.rlim_cur = needed;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return absl::UnavailableError(std::strerror(errno));
  }
  // Descriptors are given out from the lowest that is free, so a high one means as many are open.
  highest_fd_ = static_cast<int>(needed) - 1;
  if (pipe2(wake_, O_CLOEXEC) != 0) return absl::UnavailableError(std::strerror(errno));
  on_connection_ = std::move(on_connection);
  thread_ = std::thread([this] { Run(); });
  return absl::OkStatus();
}

void ConnectionListener::Run() {
  std::vector<pollfd> waiting;
  for (const int fd : fds_) waiting.push_back({fd, POLLIN, 0});
  waiting.push_back({wake_[0], POLLIN, 0});
  for (;;) {
    if (poll(waiting.data(), waiting.size(), -1) < 0) continue;  // a signal
    if (waiting.back().revents != 0) return;
    for (size_t i = 0; i + 1 < waiting.size(); ++i) {
      if (waiting[i].revents != 0) Accept(waiting[i].fd);
    }
  }
}

void ConnectionListener::Accept(int listen_fd) {
  const int fd = accept4(listen_fd, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd > highest_fd_) {
    close(fd);
  } else if (fd >= 0) {
    on_connection_(listen_fd, fd);
  } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
    std::this_thread::sleep_for(kRetry);  // the connection waits in the system's queue
  }
}

void ConnectionListener::Stop() {
  if (!thread_.joinable()) return;
  close(wake_[1]);
  thread_.join();
  close(wake_[0]);
}

}  // namespace hydrant::server
