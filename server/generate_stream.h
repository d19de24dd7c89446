// One Generate call: the engine's events on their way to one client.
//
//   engine thread    Sink -> ResponseBuffer; asks the writer for a turn; never waits for a client
//   writer thread    Pump: takes the next event, starts its write
//   gRPC's threads   OnWriteDone: Pump again; OnCancel: Engine::Cancel
//
// At most one write is under way; what comes meanwhile is merged in the buffer. The stream finishes
// only when the engine has ended the request, so the engine never outlives what it writes to.

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
#include "hydrant/v1/generation.pb.h"
#include "server/executor.h"
#include "server/metrics.h"
#include "server/response_buffer.h"

namespace hydrant::server {

class GenerateStream final : public grpc::ServerWriteReactor<grpc::ByteBuffer>,
                             public std::enable_shared_from_this<GenerateStream> {
 public:
  // The stream keeps itself alive until gRPC is done with it. `writer` and `metrics` outlive it;
  // `context` is its call's.
  static GenerateStream* Create(Executor& writer, Metrics& metrics,
                                grpc::CallbackServerContext& context,
                                std::optional<std::chrono::steady_clock::time_point> deadline);
  GenerateStream(Executor& writer, Metrics& metrics, grpc::CallbackServerContext& context,
                 std::optional<std::chrono::steady_clock::time_point> deadline);
  ~GenerateStream() override;

  // Hands the request to the engine. Called once, from any thread, unless Refuse is.
  void Submit(std::shared_ptr<engine::Engine> engine, engine::GenerateRequest request);
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
  void CancelInEngine();
  // Before the stream finishes. `usage`: of a request that did.
  void AddLoadReport(const engine::Usage* usage);

  Executor& writer_;
  Metrics& metrics_;
  grpc::CallbackServerContext& context_;
  const std::optional<std::chrono::steady_clock::time_point> deadline_;
  std::shared_ptr<GenerateStream> self_;  // until OnDone

  std::mutex mutex_;
  ResponseBuffer buffer_;
  bool pump_posted_ = false;
  bool writing_ = false;
  bool client_gone_ = false;
  std::shared_ptr<engine::Engine> engine_;         // while the request is in it
  std::weak_ptr<const engine::Engine> reporting_;  // once the engine is known
  std::string request_id_;

  // Owned by whoever set writing_.
  v1::GenerateResponse response_;
  grpc::ByteBuffer bytes_;
};

}  // namespace hydrant::server

#endif  // HYDRANT_SERVER_GENERATE_STREAM_H_
