// vllm.grpc.engine.VllmEngine over the same engine: what gateways that route to many workers speak
// to each of them (see proto/wire/vllm_engine.proto).

#ifndef HYDRANT_SERVER_VLLM_ENGINE_SERVICE_H_
#define HYDRANT_SERVER_VLLM_ENGINE_SERVICE_H_

#include <memory>

namespace grpc {
class Service;
}

namespace hydrant::server {

class EngineDoor;

// `door` outlives the service.
std::unique_ptr<grpc::Service> MakeVllmEngineService(EngineDoor& door);

}  // namespace hydrant::server

#endif  // HYDRANT_SERVER_VLLM_ENGINE_SERVICE_H_
