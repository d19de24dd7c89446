// Between hydrant.v1 messages and the engine's plain values. Only what the engine's types cannot
// hold is refused here (unknown enum numbers, ids beyond 31 bits, no input); limits of parameters
// are the engine's.

#ifndef HYDRANT_SERVER_PROTO_CONVERSION_H_
#define HYDRANT_SERVER_PROTO_CONVERSION_H_

#include "absl/status/statusor.h"
#include "engine/engine.h"
#include "engine/request.h"
#include "hydrant/v1/generation.pb.h"

namespace hydrant::server {

// Strings and ids are moved out of `request`.
absl::StatusOr<engine::GenerateRequest> FromProto(v1::GenerateRequest&& request);
absl::StatusOr<engine::chat::Conversation> FromProto(v1::Chat&& chat);

// Each fills `out`, which is empty.
void ToProto(const engine::PromptInfo& info, v1::PromptInfo& out);
void ToProto(const engine::Delta& delta, v1::Delta& out);
void ToProto(const engine::Finished& finished, v1::Finished& out);
void ToProto(const engine::ModelInfo& info, v1::GetModelInfoResponse& out);
void ToProto(const engine::LoadStats& load, v1::GetLoadResponse& out);

}  // namespace hydrant::server

#endif  // HYDRANT_SERVER_PROTO_CONVERSION_H_
