// hydrant.v1.Generation over one engine. Includes gRPC: for grpc_server.cc only.
//
// Requests are parsed here instead of by gRPC, whose answer to a malformed one (also to a string
// that is not UTF-8) would be UNIMPLEMENTED without a word.

#ifndef HYDRANT_SERVER_GENERATION_SERVICE_H_
#define HYDRANT_SERVER_GENERATION_SERVICE_H_

#include <memory>
#include <mutex>

#include "absl/status/statusor.h"
#include "engine/engine.h"
#include "hydrant/v1/generation.grpc.pb.h"
#include "server/executor.h"
#include "server/generate_stream.h"
#include "server/generation_options.h"
#include "server/metrics.h"
#include "server/tenants.h"

namespace hydrant::server {

// The generated base with every method raw.
using RawGenerationService = v1::Generation::WithRawCallbackMethod_Generate<
    v1::Generation::WithRawCallbackMethod_Tokenize<v1::Generation::WithRawCallbackMethod_Detokenize<
        v1::Generation::WithRawCallbackMethod_GetModelInfo<
            v1::Generation::WithRawCallbackMethod_GetLoad<
                v1::Generation::WithRawCallbackMethod_Abort<v1::Generation::Service>>>>>>;

class GenerationService final : public RawGenerationService {
 public:
  GenerationService(Metrics& metrics, const GenerationOptions& options);

  // Until then every method answers UNAVAILABLE.
  void SetEngine(std::shared_ptr<engine::Engine> engine);

  grpc::ServerWriteReactor<grpc::ByteBuffer>* Generate(grpc::CallbackServerContext* context,
                                                       const grpc::ByteBuffer* request) override;
  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* context,
                                     const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Detokenize(grpc::CallbackServerContext* context,
                                       const grpc::ByteBuffer* request,
                                       grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* GetModelInfo(grpc::CallbackServerContext* context,
                                         const grpc::ByteBuffer* request,
                                         grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* GetLoad(grpc::CallbackServerContext* context,
                                    const grpc::ByteBuffer* request,
                                    grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Abort(grpc::CallbackServerContext* context,
                                  const grpc::ByteBuffer* request,
                                  grpc::ByteBuffer* response) override;

 private:
  absl::StatusOr<std::shared_ptr<engine::Engine>> LoadedEngine();

  // The call's place among its tenant's; null where there are no tenants.
  absl::StatusOr<std::unique_ptr<Tenants::Lease>> EnterTenant(
      const grpc::CallbackServerContext& context);
  // What can be refused before a request is parsed. Counts it.
  absl::StatusOr<std::shared_ptr<engine::Engine>> EngineWithRoom();

  // Runs `task` here when the request is small, else on the executor for long texts.
  void Run(size_t request_bytes, std::function<void()> task);

  // Parses, calls method(engine, request, response) -> absl::Status, serialises.
  template <typename Request, typename Response, typename Method>
  grpc::ServerUnaryReactor* Unary(grpc::CallbackServerContext* context,
                                  const grpc::ByteBuffer* request, grpc::ByteBuffer* response,
                                  Method method);

  Metrics& metrics_;
  Tenants tenants_;
  std::mutex mutex_;
  std::shared_ptr<engine::Engine> engine_;
  Executor writer_{1};
  Executor long_texts_{1};
  const StreamContext stream_context_;
};

}  // namespace hydrant::server

#endif  // HYDRANT_SERVER_GENERATION_SERVICE_H_
