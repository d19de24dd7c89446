#include "server/engine_door.h"

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace hydrant::server {
namespace {

// Tokenising this much takes far less than a step of the engine.
constexpr size_t kLongTextBytes = 16 << 10;

std::optional<std::chrono::steady_clock::time_point> Deadline(
    const grpc::CallbackServerContext& context) {
  const auto deadline = context.deadline();
  // gRPC's "never" is the end of time, with some rounding.
  if (deadline > std::chrono::system_clock::now() + std::chrono::hours(24 * 365)) {
    return std::nullopt;
  }
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::steady_clock::duration>(
             deadline - std::chrono::system_clock::now());
}

}  // namespace

EngineDoor::EngineDoor(Metrics& metrics, const GenerationOptions& options,
                       int64_t max_metadata_bytes)
    : metrics_(metrics),
      tenants_(options.tenants),
      max_metadata_bytes_(max_metadata_bytes),
      stream_context_{writer_, metrics, options.log_requests ? options.log : nullptr,
                      options.log_prompts, options.stream_buffer_bytes} {}

void EngineDoor::SetEngine(std::shared_ptr<engine::Engine> engine) {
  std::lock_guard lock(mutex_);
  engine_ = std::move(engine);
}

absl::StatusOr<std::shared_ptr<engine::Engine>> EngineDoor::LoadedEngine() {
  std::lock_guard lock(mutex_);
  if (engine_) return engine_;
  return WithReason(absl::UnavailableError("the model is loading"), "LOADING");
}

absl::Status EngineDoor::CheckMetadata(const grpc::CallbackServerContext& context) const {
  constexpr int64_t kEntryBytes = 32;  // RFC 9113, 6.5.2
  int64_t bytes = 0;
  for (const auto& [name, value] : context.client_metadata()) {
    bytes += static_cast<int64_t>(name.size() + value.size()) + kEntryBytes;
  }
  if (bytes <= max_metadata_bytes_) return absl::OkStatus();
  return WithReason(
      absl::InvalidArgumentError(
          absl::StrCat("metadata: ", bytes, " bytes; max_metadata_bytes is ", max_metadata_bytes_)),
      "METADATA_TOO_LONG");
}

absl::StatusOr<std::unique_ptr<Tenants::Lease>> EngineDoor::EnterTenant(
    const grpc::CallbackServerContext& context) {
  const std::string& key = tenants_.options().metadata_key;
  if (key.empty()) return nullptr;
  const auto& metadata = context.client_metadata();
  const auto it = metadata.find(key);
  auto lease =
      tenants_.Enter(it == metadata.end() ? std::string_view()
                                          : std::string_view(it->second.data(), it->second.size()));
  if (!lease.ok()) metrics_.OnRejected(absl::AsciiStrToLower(ReasonOf(lease.status())));
  return lease;
}

absl::StatusOr<std::shared_ptr<engine::Engine>> EngineDoor::EngineWithRoom() {
  auto engine = LoadedEngine();
  if (!engine.ok()) {
    metrics_.OnRejected("loading");
    return engine;
  }
  if (absl::Status status = (*engine)->CheckRoom(); !status.ok()) {
    metrics_.OnRejected(absl::IsUnavailable(status) ? "draining" : "queue_full");
    return status;
  }
  return engine;
}

void EngineDoor::Run(size_t request_bytes, std::function<void()> task) {
  if (request_bytes < kLongTextBytes) {
    task();
  } else {
    long_texts_.Post(std::move(task));
  }
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* EngineDoor::Generate(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* bytes, ParseGenerate parse) {
  const absl::Status metadata = CheckMetadata(*context);
  if (!metadata.ok()) metrics_.OnRejected("invalid_argument");
  auto lease = metadata.ok() ? EnterTenant(*context) : metadata;
  GenerateStream* stream = GenerateStream::Create(stream_context_, *context, Deadline(*context),
                                                  lease.ok() ? *std::move(lease) : nullptr);
  auto engine = lease.ok() ? EngineWithRoom() : lease.status();
  if (!engine.ok()) {
    stream->Refuse(engine.status());
    return stream;
  }
  Run(bytes->Length(), [this, stream, bytes, parse, engine = *std::move(engine)] {
    auto call = parse(*bytes);
    if (!call.ok()) {
      metrics_.OnRejected("invalid_argument");
      stream->Refuse(call.status());
      return;
    }
    // The id has to be known before the engine tells it: a client may leave at once.
    std::string& id = call->request.request_id;
    if (id.empty()) id = engine::NewRequestId();
    stream->Submit(engine, std::move(call->request), std::move(call->encoder));
  });
  return stream;
}

}  // namespace hydrant::server
