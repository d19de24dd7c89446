// The bearer tokens that a server takes: a file of names and SHA-256 hashes, read again when it
// changes. The tokens themselves are nowhere on the server.
//
//   # a line a token; a name may have several, so that a new one can be handed out before the old
//   # one goes
//   alice 2bd806c97f0e00af1a1fc3328fa763a9269723c8db8fac4f93af71db186d6e90
//
// A bare hash is enough because tokens are random and long; passwords would need a slow, salted
// one.

#ifndef HYDRANT_SERVER_SECURITY_AUTH_TOKENS_H_
#define HYDRANT_SERVER_SECURITY_AUTH_TOKENS_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/log.h"

namespace hydrant::server {

// All methods may be called from any thread.
class AuthTokens {
 public:
  // Errors name the file, and the line. `log` is told of changes.
  static absl::StatusOr<std::unique_ptr<AuthTokens>> Open(const std::string& path,
                                                          const Log& log = Log());

  // Whose token is in a header's value, "Bearer <token>"; nullopt: nobody's. Takes the same time
  // whichever token it is, or nearly is. Sees a changed file within a second; one that is bad or
  // gone is told in the log, and the tokens known before stay.
  std::optional<std::string> NameOf(std::string_view authorization);

 private:
  using Hash = std::array<unsigned char, 32>;
  struct Token {
    std::string name;
    Hash hash;
  };
  using Tokens = std::vector<Token>;
  // What tells one version of a file from the next.
  struct Version {
    int64_t inode = 0, size = 0, seconds = 0, nanoseconds = 0;
    bool operator==(const Version&) const = default;
  };

  AuthTokens(std::string path, const Log& log) : path_(std::move(path)), log_(log) {}
  static absl::StatusOr<Tokens> Read(const std::string& path);
  static Version VersionOf(const std::string& path);
  std::shared_ptr<const Tokens> Current();

  const std::string path_;
  const Log log_;
  std::mutex mutex_;
  Version version_;
  std::chrono::steady_clock::time_point looked_;
  std::shared_ptr<const Tokens> tokens_;
};

}  // namespace hydrant::server

#endif  // HYDRANT_SERVER_SECURITY_AUTH_TOKENS_H_
