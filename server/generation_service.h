// hydrant.v1.Generation over one engine. Includes gRPC: for grpc_server.cc only.

#ifndef HYDRANT_SERVER_GENERATION_SERVICE_H_
#define HYDRANT_SERVER_GENERATION_SERVICE_H_

#include "hydrant/v1/generation.grpc.pb.h"
#include "server/engine_door.h"

namespace hydrant::server {

// The generated base with every method raw.
using RawGenerationService = v1::Generation::WithRawCallbackMethod_Generate<
    v1::Generation::WithRawCallbackMethod_Tokenize<v1::Generation::WithRawCallbackMethod_Detokenize<
        v1::Generation::WithRawCallbackMethod_GetModelInfo<
            v1::Generation::WithRawCallbackMethod_GetLoad<
                v1::Generation::WithRawCallbackMethod_Abort<v1::Generation::Service>>>>>>;

class GenerationService final : public RawGenerationService {
 public:
  // `door` outlives the service. Until it has an engine, every method answers UNAVAILABLE.
  explicit GenerationService(EngineDoor& door) : door_(door) {}

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
  EngineDoor& door_;
};

}  // namespace hydrant::server

#endif  // HYDRANT_SERVER_GENERATION_SERVICE_H_
