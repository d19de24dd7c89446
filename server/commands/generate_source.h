// Where `hydrant generate` gets its answer from. Both speak the API's messages, so that a prompt
// gives the same here and there.

#ifndef HYDRANT_SERVER_COMMANDS_GENERATE_SOURCE_H_
#define HYDRANT_SERVER_COMMANDS_GENERATE_SOURCE_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/engine.h"
#include "hydrant/v1/generation.pb.h"
#include "server/security/client_credentials.h"

namespace hydrant::server {

class GenerateSource {
 public:
  using OnEvent = std::function<void(const v1::GenerateResponse&)>;

  virtual ~GenerateSource() = default;
  // Returns at the end of the stream. OnEvent may be called from another thread, never after.
  virtual absl::Status Generate(v1::GenerateRequest request, const OnEvent& on_event) = 0;
  // Ends Generate with CANCELLED, also one that starts later. From any thread.
  virtual void Cancel() = 0;
};

// Loads the model in this process; tells progress on stderr.
absl::StatusOr<std::unique_ptr<GenerateSource>> LocalSource(const engine::EngineOptions& options);
// Connects to a server ("host:port") when it is first used.
absl::StatusOr<std::unique_ptr<GenerateSource>> RemoteSource(const std::string& address,
                                                             const ClientSecurity& security);

}  // namespace hydrant::server

#endif  // HYDRANT_SERVER_COMMANDS_GENERATE_SOURCE_H_
