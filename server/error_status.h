// absl::Status to what goes over the wire. Every error carries google.rpc.ErrorInfo (domain
// "hydrant") in the trailer grpc-status-details-bin; RESOURCE_EXHAUSTED and UNAVAILABLE also carry
// google.rpc.RetryInfo.

#ifndef HYDRANT_SERVER_ERROR_STATUS_H_
#define HYDRANT_SERVER_ERROR_STATUS_H_

#include <string>

#include "absl/status/status.h"
#include "engine/status_details.h"

namespace grpc {
class Status;
}

namespace hydrant::server {

// ErrorInfo.reason is the status's own reason, or its code's usual one; RetryInfo's delay likewise.
using engine::WithReason;
using engine::WithRetryDelay;

// What ErrorInfo.reason will be.
std::string ReasonOf(const absl::Status& status);

// Messages are cut to what fits HTTP/2 headers, at whole UTF-8 characters.
grpc::Status ToGrpcStatus(const absl::Status& status);

}  // namespace hydrant::server

#endif  // HYDRANT_SERVER_ERROR_STATUS_H_
