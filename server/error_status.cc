#include "server/error_status.h"

#include <grpcpp/support/status.h>

#include <chrono>
#include <string>
#include <string_view>

#include "wire/rpc_status.pb.h"

namespace hydrant::server {
namespace {

// Clients take 8 KiB of headers by default, and the message is in them twice, once percent-encoded.
constexpr size_t kMaxMessageBytes = 1024;
constexpr std::chrono::milliseconds kRetryDelay(1000);

const char* UsualReason(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
      return "INVALID_PARAMETER";
    case absl::StatusCode::kNotFound:
      return "MODEL_NOT_FOUND";
    case absl::StatusCode::kAlreadyExists:
      return "REQUEST_ID_IN_FLIGHT";
    case absl::StatusCode::kResourceExhausted:
      return "QUEUE_FULL";
    case absl::StatusCode::kUnavailable:
      return "NOT_SERVING";
    case absl::StatusCode::kDeadlineExceeded:
      return "DEADLINE_PASSED";
    case absl::StatusCode::kCancelled:
      return "CANCELLED";
    case absl::StatusCode::kUnimplemented:
      return "NOT_BUILT";
    default:
      return "ENGINE_FAULT";
  }
}

// Bytes of the UTF-8 character at the front of `text`; 0 when there is none.
size_t CharacterBytes(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const size_t n = byte(0) < 0x80   ? 1
                   : byte(0) < 0xC2 ? 0
                   : byte(0) < 0xE0 ? 2
                   : byte(0) < 0xF0 ? 3
                   : byte(0) < 0xF5 ? 4
                                    : 0;
  if (n == 0 || n > text.size()) return 0;
  for (size_t i = 1; i < n; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const bool overlong = (byte(0) == 0xE0 && byte(1) < 0xA0) || (byte(0) == 0xF0 && byte(1) < 0x90);
  const bool surrogate = byte(0) == 0xED && byte(1) >= 0xA0;
  const bool beyond = byte(0) == 0xF4 && byte(1) >= 0x90;
  return overlong || surrogate || beyond ? 0 : n;
}

// What a client sent may be quoted in a message, and cut anywhere.
std::string HeaderText(std::string_view message) {
  std::string text;
  while (!message.empty()) {
    const size_t n = CharacterBytes(message);
    if (text.size() + n > kMaxMessageBytes) return text + "...";
    if (n == 0) {
      text += '?';
      message.remove_prefix(1);
    } else {
      text += message.substr(0, n);
      message.remove_prefix(n);
    }
  }
  return text;
}

}  // namespace

std::string ReasonOf(const absl::Status& status) {
  return engine::Reason(status).value_or(UsualReason(status.code()));
}

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  // The codes of absl::Status are gRPC's.
  const auto code = static_cast<grpc::StatusCode>(status.code());
  const std::string message =
      HeaderText(std::string_view(status.message().data(), status.message().size()));

  google::rpc::Status details;
  details.set_code(code);
  details.set_message(message);
  google::rpc::ErrorInfo info;
  info.set_reason(ReasonOf(status));
  info.set_domain("hydrant");
  details.add_details()->PackFrom(info);
  if (absl::IsResourceExhausted(status) || absl::IsUnavailable(status)) {
    google::rpc::RetryInfo retry;
    const auto delay = engine::RetryDelay(status).value_or(kRetryDelay);
    retry.mutable_retry_delay()->set_seconds(delay.count() / 1000);
    retry.mutable_retry_delay()->set_nanos(static_cast<int32_t>(delay.count() % 1000) * 1'000'000);
    details.add_details()->PackFrom(retry);
  }
  return grpc::Status(code, message, details.SerializeAsString());
}

}  // namespace hydrant::server
