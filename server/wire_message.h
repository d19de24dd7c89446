// Messages to and from the bytes of a raw method. Includes gRPC: for services only.
//
// Requests are parsed by the services instead of by gRPC, whose answer to a malformed one (also to
// a string that is not UTF-8) would be UNIMPLEMENTED without a word.

#ifndef HYDRANT_SERVER_WIRE_MESSAGE_H_
#define HYDRANT_SERVER_WIRE_MESSAGE_H_

#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "server/error_status.h"

namespace hydrant::server {

// INVALID_ARGUMENT for what is no such message.
template <typename Message>
absl::StatusOr<Message> Parse(const grpc::ByteBuffer& bytes) {
  grpc::ByteBuffer copy = bytes;  // shares the slices; reading consumes them
  Message message;
  if (grpc::SerializationTraits<Message>::Deserialize(&copy, &message).ok()) return message;
  return WithReason(absl::InvalidArgumentError(absl::StrCat(
                        message.GetTypeName(),
                        ": not a valid message: malformed, or a string that is not UTF-8")),
                    "MALFORMED_MESSAGE");
}

template <typename Message>
grpc::Status Serialize(const Message& message, grpc::ByteBuffer* bytes) {
  bool own_buffer;
  return grpc::SerializationTraits<Message>::Serialize(message, bytes, &own_buffer);
}

}  // namespace hydrant::server

#endif  // HYDRANT_SERVER_WIRE_MESSAGE_H_
