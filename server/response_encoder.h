// How one service says, in messages of its own, what the engine tells of a request.

#ifndef HYDRANT_SERVER_RESPONSE_ENCODER_H_
#define HYDRANT_SERVER_RESPONSE_ENCODER_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include "engine/request.h"

namespace hydrant::server {

// One for each stream, which gives it the events in their order, one at a time, and Finished last.
class ResponseEncoder {
 public:
  virtual ~ResponseEncoder() = default;

  // Fill `bytes`, which is empty, with a serialised message; or leave it, when there is nothing to
  // say yet. Finished is always a message.
  virtual grpc::Status Encode(const engine::PromptInfo& info, grpc::ByteBuffer* bytes) = 0;
  virtual grpc::Status Encode(const engine::Delta& delta, grpc::ByteBuffer* bytes) = 0;
  virtual grpc::Status Encode(const engine::Finished& finished, grpc::ByteBuffer* bytes) = 0;
};

}  // namespace hydrant::server

#endif  // HYDRANT_SERVER_RESPONSE_ENCODER_H_
