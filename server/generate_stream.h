// One Generate call: the engine's events on their way to one client.
//
//   engine thread    Sink -> ResponseBuffer; asks the writer for a turn; never waits for a client
//   writer thread    Pump: takes the next event, starts its write
//   gRPC's threads   OnWriteDone: Pump again; OnCancel: Engine::Cancel
//
// At most one write is under way; what comes meanwhile is merged in the buffer. The stream finishes
// only when the engine has ended the request, so the engine never outlives what it writes to. A
// client that leaves more unread than is kept for it has its request cancelled: what it has not
// read is dropped, and its stream ends, when it reads on, with RESOURCE_EXHAUSTED.

#ifndef HYDRANT_SERVER_GENERATE_STREAM_H_
#define HYDRANT_SERVER_GENERATE_STREAM_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "engine/engine.h"
#include "server/executor.h"
#include "server/log.h"
#include "server/metrics.h"
#include "server/request_log.h"
#include "server/response_buffer.h"
#include "server/response_encoder.h"
#include "server/tenants.h"

namespace hydrant::server {

// What all streams have in common. All outlives them.
struct StreamContext {
  Executor& writer;
  Metrics& metrics;
  const Log* log = nullptr;  // null: requests are not logged
  bool log_prompts = false;
  int64_t buffer_bytes = 0;
};

class GenerateStream final : public grpc::ServerWriteReactor<grpc::ByteBuffer>,
                             public std::enable_shared_from_this<GenerateStream> {
 public:
  using Clock = std::chrono::steady_clock;

  // The stream keeps itself alive until gRPC is done with it. `call` is gRPC's; `lease` may be
  // null.
  static GenerateStream* Create(const StreamContext& context, grpc::CallbackServerContext& call,
                                std::optional<Clock::time_point> deadline,
                                std::unique_ptr<Tenants::Lease> lease);
  GenerateStream(const StreamContext& context, grpc::CallbackServerContext& call,
                 std::optional<Clock::time_point> deadline, std::unique_ptr<Tenants::Lease> lease);
  ~GenerateStream() override;

  // Hands the request to the engine. Called once, from any thread, unless Refuse is.
  // `encoder` writes what the client gets.
  void Submit(std::shared_ptr<engine::Engine> engine, engine::GenerateRequest request,
              std::unique_ptr<ResponseEncoder> encoder);
  // Ends the stream of a request that is not in the engine.
  void Refuse(const absl::Status& status);

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  class Sink;

  // Queues an event (or an end) from the engine and has it written.
  template <typename Push>
  void Receive(Push push);
  // Starts the next write, or finishes, unless a write is under way.
  void Pump();
  // An event that is no Status, into bytes_.
  grpc::Status Encode(const ResponseBuffer::Event& event);
  void CancelInEngine();
  // Finishes with a status that is not OK.
  void End(const absl::Status& status);
  // Before the stream finishes. `usage`: of a request that did.
  void AddLoadReport(const engine::Usage* usage);
  // From the engine's thread, as tokens are known.
  void CountPrompt(int64_t tokens);
  void CountCompletion(int64_t tokens);

  const StreamContext context_;
  grpc::CallbackServerContext& call_;
  const std::optional<Clock::time_point> deadline_;
  const Clock::time_point opened_ = Clock::now();
  std::unique_ptr<Tenants::Lease> lease_;  // until OnDone
  std::shared_ptr<GenerateStream> self_;   // until OnDone

  std::mutex mutex_;
  ResponseBuffer buffer_;
  bool pump_posted_ = false;
  bool writing_ = false;
  bool client_gone_ = false;
  bool too_slow_ = false;  // what it left unread was dropped
  RequestRecord record_;
  std::shared_ptr<engine::Engine> engine_;         // while the request is in it
  std::weak_ptr<const engine::Engine> reporting_;  // once the engine is known
  std::string request_id_;

  // Owned by whoever set writing_.
  std::unique_ptr<ResponseEncoder> encoder_;  // from Submit on
  grpc::ByteBuffer bytes_;
};

}  // namespace hydrant::server

#endif  // HYDRANT_SERVER_GENERATE_STREAM_H_
