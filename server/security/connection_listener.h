// Accepts the connections of the gRPC port, so many at once and no more. gRPC 1.51 itself has no
// such limit, and stops listening for good, without a word to anybody, when the process has no file
// descriptor left for one.

#ifndef HYDRANT_SERVER_SECURITY_CONNECTION_LISTENER_H_
#define HYDRANT_SERVER_SECURITY_CONNECTION_LISTENER_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace hydrant::server {

class ConnectionListener {
 public:
  // Takes over the descriptor `fd`, of a connection that came in by the listener's `listen_fd`.
  using OnConnection = std::function<void(int listen_fd, int fd)>;

  // Binds `address`: "host:port" (of all that the host resolves to; 0.0.0.0 and [::] are every
  // address of both families; port 0: any free one), or "unix:/path", whose old socket it replaces.
  // Errors name the address and the reason.
  static absl::StatusOr<std::unique_ptr<ConnectionListener>> Bind(const std::string& address);
  ~ConnectionListener();  // stops

  int port() const { return port_; }

  // From now on calls `on_connection`, on a thread of its own. A connection beyond `most` is closed
  // at once: its client can try another server. What else the process opens counts, too, beyond a
  // reserve. 0: what the system's limit of descriptors leaves, at most 10,000. Errors when that is
  // too low for `most`.
  absl::Status Start(int most, OnConnection on_connection);
  // No connection is accepted any more, and none handed over.
  void Stop();

 private:
  ConnectionListener();
  absl::Status BindUnix(const std::string& path);
  absl::Status BindTcp(const std::string& address);
  void CloseAll();
  void Run();
  void Accept(int listen_fd);

  std::vector<int> fds_;
  std::string unix_path_;
  int port_ = 0;
  int wake_[2] = {-1, -1};  // a pipe: closing its end stops the thread
  int highest_fd_ = 0;      // a connection with a higher one is one too many
  OnConnection on_connection_;
  std::thread thread_;
};

}  // namespace hydrant::server

#endif  // HYDRANT_SERVER_SECURITY_CONNECTION_LISTENER_H_
