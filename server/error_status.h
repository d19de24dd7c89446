// absl::Status to what goes over the wire. Every error carries google.rpc.ErrorInfo (domain
// "hydrant") in the trailer grpc-status-details-bin; RESOURCE_EXHAUSTED and UNAVAILABLE also carry
// google.rpc.RetryInfo.

#ifndef HYDRANT_SERVER_ERROR_STATUS_H_
#define HYDRANT_SERVER_ERROR_STATUS_H_

#include <string_view>

#include "absl/status/status.h"

namespace grpc {
class Status;
}

namespace hydrant::server {

// A status whose ErrorInfo.reason is `reason` (UPPER_SNAKE_CASE) instead of the code's usual one.
absl::Status WithReason(absl::Status status, std::string_view reason);

// Messages are cut to what fits HTTP/2 headers, at whole UTF-8 characters.
grpc::Status ToGrpcStatus(const absl::Status& status);

}  // namespace hydrant::server

#endif  // HYDRANT_SERVER_ERROR_STATUS_H_
