// The way of a call to the engine, the same for every service: whether the model is there, whose
// call it is, whether there is room; then its parsing and its submission. Includes gRPC: for
// grpc_server.cc and services only.

#ifndef HYDRANT_SERVER_ENGINE_DOOR_H_
#define HYDRANT_SERVER_ENGINE_DOOR_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/status/statusor.h"
#include "engine/engine.h"
#include "server/error_status.h"
#include "server/executor.h"
#include "server/generate_stream.h"
#include "server/generation_options.h"
#include "server/metrics.h"
#include "server/response_encoder.h"
#include "server/tenants.h"
#include "server/wire_message.h"

namespace hydrant::server {

class EngineDoor {
 public:
  // A call whose headers are longer than `max_metadata_bytes`, as HTTP/2 counts them, is refused.
  EngineDoor(Metrics& metrics, const GenerationOptions& options, int64_t max_metadata_bytes);

  void SetEngine(std::shared_ptr<engine::Engine> engine);
  // UNAVAILABLE until then.
  absl::StatusOr<std::shared_ptr<engine::Engine>> LoadedEngine();

  struct GenerateCall {
    engine::GenerateRequest request;
    std::unique_ptr<ResponseEncoder> encoder;
  };
  using ParseGenerate = absl::StatusOr<GenerateCall> (*)(const grpc::ByteBuffer& request);
  // A call whose answer is streamed. `parse` is not called when the call is refused anyway.
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Generate(grpc::CallbackServerContext* context,
                                                       const grpc::ByteBuffer* request,
                                                       ParseGenerate parse);

  // Parses, calls method(engine, request, response) -> absl::Status, serialises.
  template <typename Request, typename Response, typename Method>
  grpc::ServerUnaryReactor* Unary(grpc::CallbackServerContext* context,
                                  const grpc::ByteBuffer* request, grpc::ByteBuffer* response,
                                  Method method);

 private:
  // INVALID_ARGUMENT for headers that are too long.
  absl::Status CheckMetadata(const grpc::CallbackServerContext& context) const;
  // The call's place among its tenant's; null where there are no tenants.
  absl::StatusOr<std::unique_ptr<Tenants::Lease>> EnterTenant(
      const grpc::CallbackServerContext& context);
  // What can be refused before a request is parsed. Counts it.
  absl::StatusOr<std::shared_ptr<engine::Engine>> EngineWithRoom();

  // Runs `task` here when the request is small, else on the executor for long texts.
  void Run(size_t request_bytes, std::function<void()> task);

  Metrics& metrics_;
  Tenants tenants_;
  const int64_t max_metadata_bytes_;
  std::mutex mutex_;
  std::shared_ptr<engine::Engine> engine_;
  Executor writer_{1};
  Executor long_texts_{1};
  const StreamContext stream_context_;
};

template <typename Request, typename Response, typename Method>
grpc::ServerUnaryReactor* EngineDoor::Unary(grpc::CallbackServerContext* context,
                                            const grpc::ByteBuffer* request_bytes,
                                            grpc::ByteBuffer* response_bytes, Method method) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (absl::Status status = CheckMetadata(*context); !status.ok()) {
    reactor->Finish(ToGrpcStatus(status));
    return reactor;
  }
  Run(request_bytes->Length(), [this, request_bytes, response_bytes, reactor, method] {
    auto engine = LoadedEngine();
    if (!engine.ok()) return reactor->Finish(ToGrpcStatus(engine.status()));
    auto request = Parse<Request>(*request_bytes);
    if (!request.ok()) return reactor->Finish(ToGrpcStatus(request.status()));
    Response response;
    const absl::Status status = method(**engine, *std::move(request), response);
    reactor->Finish(status.ok() ? Serialize(response, response_bytes) : ToGrpcStatus(status));
  });
  return reactor;
}

}  // namespace hydrant::server

#endif  // HYDRANT_SERVER_ENGINE_DOOR_H_
