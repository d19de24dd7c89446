// The bench's side of gRPC: many open streams, a few threads. Requests run on gRPC's callback
// threads; a stream costs no thread, and its tokens no allocation of ours.

#ifndef HYDRANT_SERVER_BENCH_CLIENT_H_
#define HYDRANT_SERVER_BENCH_CLIENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "hydrant/v1/generation.pb.h"
#include "server/bench/request_record.h"
#include "server/security/client_credentials.h"

namespace hydrant::server::bench {

class Client {
 public:
  // Connects to a server ("host:port") when it is first used. Errors are MakeChannel's.
  static absl::StatusOr<std::unique_ptr<Client>> Make(const std::string& address,
                                                      const ClientSecurity& security = {});
  // Waits for open requests to end.
  ~Client();

  // Asks until the server answers OK, for `wait_seconds` at most (0: asks once).
  absl::StatusOr<v1::GetModelInfoResponse> WaitForModel(double wait_seconds);
  // A text without the tokens that the tokenizer itself puts around one.
  absl::StatusOr<std::vector<uint32_t>> Tokenize(const std::string& text);
  // nullopt when there was no answer within a second.
  std::optional<v1::GetLoadResponse> GetLoad();

  // Called once, on one of gRPC's threads; must not block.
  using OnEnd = std::function<void(RequestRecord)>;
  // Sends and returns. `clock` outlives the request; `timeout`: seconds until DEADLINE_EXCEEDED.
  void Start(const v1::GenerateRequest& request, const Clock& clock, double scheduled,
             std::optional<double> timeout, OnEnd on_end);
  // Cancels what is open; it ends as interrupted. From any thread.
  void InterruptAll();

  // Generated tokens received so far, over all requests.
  int64_t tokens() const;

 private:
  struct Impl;
  class Call;
  explicit Client(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace hydrant::server::bench

#endif  // HYDRANT_SERVER_BENCH_CLIENT_H_
