#include "server/generation_service.h"

#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/server_context.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "engine/tokenizer/tokenizer.h"
#include "server/error_status.h"
#include "server/proto_conversion.h"

namespace hydrant::server {
namespace {

// Tokenising this much takes far less than a step of the engine.
constexpr size_t kLongTextBytes = 16 << 10;

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

GenerationService::GenerationService(Metrics& metrics, const GenerationOptions& options)
    : metrics_(metrics),
      tenants_(options.tenants),
      stream_context_{writer_, metrics, options.log, options.log_prompts,
                      options.stream_buffer_bytes} {}

void GenerationService::SetEngine(std::shared_ptr<engine::Engine> engine) {
  std::lock_guard lock(mutex_);
  engine_ = std::move(engine);
}

absl::StatusOr<std::shared_ptr<engine::Engine>> GenerationService::LoadedEngine() {
  std::lock_guard lock(mutex_);
  if (engine_) return engine_;
  return WithReason(absl::UnavailableError("the model is loading"), "LOADING");
}

absl::StatusOr<std::unique_ptr<Tenants::Lease>> GenerationService::EnterTenant(
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

absl::StatusOr<std::shared_ptr<engine::Engine>> GenerationService::EngineWithRoom() {
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

void GenerationService::Run(size_t request_bytes, std::function<void()> task) {
  if (request_bytes < kLongTextBytes) {
    task();
  } else {
    long_texts_.Post(std::move(task));
  }
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* GenerationService::Generate(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* bytes) {
  auto lease = EnterTenant(*context);
  GenerateStream* stream = GenerateStream::Create(stream_context_, *context, Deadline(*context),
                                                  lease.ok() ? *std::move(lease) : nullptr);
  auto engine = lease.ok() ? EngineWithRoom() : lease.status();
  if (!engine.ok()) {
    stream->Refuse(engine.status());
    return stream;
  }
  Run(bytes->Length(), [this, stream, bytes, engine = *std::move(engine)] {
    auto message = Parse<v1::GenerateRequest>(*bytes);
    auto request = message.ok() ? FromProto(*std::move(message))
                                : absl::StatusOr<engine::GenerateRequest>(message.status());
    if (!request.ok()) {
      metrics_.OnRejected("invalid_argument");
      stream->Refuse(request.status());
      return;
    }
    // The id has to be known before the engine tells it: a client may leave at once.
    if (request->request_id.empty()) request->request_id = engine::NewRequestId();
    stream->Submit(engine, *std::move(request));
  });
  return stream;
}

template <typename Request, typename Response, typename Method>
grpc::ServerUnaryReactor* GenerationService::Unary(grpc::CallbackServerContext* context,
                                                   const grpc::ByteBuffer* request_bytes,
                                                   grpc::ByteBuffer* response_bytes,
                                                   Method method) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  Run(request_bytes->Length(), [this, request_bytes, response_bytes, reactor, method] {
    auto engine = LoadedEngine();
    if (!engine.ok()) return reactor->Finish(ToGrpcStatus(engine.status()));
    auto request = Parse<Request>(*request_bytes);
    if (!request.ok()) return reactor->Finish(ToGrpcStatus(request.status()));
    Response response;
    const absl::Status status = method(**engine, *std::move(request), response);
    reactor->Finish(status.ok() ? Serialize(response, response_bytes) : ToGrpcStatus(status));
  });
  return reactor;
}

grpc::ServerUnaryReactor* GenerationService::Tokenize(grpc::CallbackServerContext* context,
                                                      const grpc::ByteBuffer* request,
                                                      grpc::ByteBuffer* response) {
  return Unary<v1::TokenizeRequest, v1::TokenizeResponse>(
      context, request, response,
      [](engine::Engine& engine, v1::TokenizeRequest&& request, v1::TokenizeResponse& response) {
        if (absl::Status status = engine.CheckModel(request.model()); !status.ok()) return status;
        // A template writes its own special tokens.
        bool add_special_tokens = false;
        if (request.has_chat()) {
          auto conversation = FromProto(std::move(*request.mutable_chat()));
          if (!conversation.ok()) return conversation.status();
          auto rendered = engine.RenderChat(*conversation);
          if (!rendered.ok()) return rendered.status();
          response.set_rendered(*std::move(rendered));
        } else if (request.has_text()) {
          add_special_tokens = !request.has_add_special_tokens() || request.add_special_tokens();
          response.set_rendered(std::move(*request.mutable_text()));
        } else {
          return absl::InvalidArgumentError("input: one of text and chat must be set");
        }
        const std::vector<int32_t> ids =
            engine.tokenizer().Encode(response.rendered(), add_special_tokens);
        response.mutable_token_ids()->Add(ids.begin(), ids.end());
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* GenerationService::Detokenize(grpc::CallbackServerContext* context,
                                                        const grpc::ByteBuffer* request,
                                                        grpc::ByteBuffer* response) {
  return Unary<v1::DetokenizeRequest, v1::DetokenizeResponse>(
      context, request, response,
      [](engine::Engine& engine, v1::DetokenizeRequest&& request,
         v1::DetokenizeResponse& response) {
        if (absl::Status status = engine.CheckModel(request.model()); !status.ok()) return status;
        const uint32_t vocab_size = engine.model_info().vocab_size;
        std::vector<int32_t> ids;
        for (uint32_t id : request.token_ids()) {
          if (id >= vocab_size) {
            return absl::InvalidArgumentError(
                absl::StrCat("token_ids: ", id, " is outside the vocabulary of ", vocab_size));
          }
          ids.push_back(static_cast<int32_t>(id));
        }
        const bool skip = !request.has_skip_special_tokens() || request.skip_special_tokens();
        response.set_text(engine.tokenizer().Decode(ids, skip));
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* GenerationService::GetModelInfo(grpc::CallbackServerContext* context,
                                                          const grpc::ByteBuffer* request,
                                                          grpc::ByteBuffer* response) {
  return Unary<v1::GetModelInfoRequest, v1::GetModelInfoResponse>(
      context, request, response,
      [](engine::Engine& engine, v1::GetModelInfoRequest&& request,
         v1::GetModelInfoResponse& response) {
        if (absl::Status status = engine.CheckModel(request.model()); !status.ok()) return status;
        ToProto(engine.model_info(), response);
        response.set_server_version(HYDRANT_VERSION);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* GenerationService::GetLoad(grpc::CallbackServerContext* context,
                                                     const grpc::ByteBuffer* request,
                                                     grpc::ByteBuffer* response) {
  return Unary<v1::GetLoadRequest, v1::GetLoadResponse>(
      context, request, response,
      [](engine::Engine& engine, v1::GetLoadRequest&&, v1::GetLoadResponse& response) {
        ToProto(engine.load(), response);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* GenerationService::Abort(grpc::CallbackServerContext* context,
                                                   const grpc::ByteBuffer* request,
                                                   grpc::ByteBuffer* response) {
  return Unary<v1::AbortRequest, v1::AbortResponse>(
      context, request, response,
      [](engine::Engine& engine, v1::AbortRequest&& request, v1::AbortResponse&) {
        if (request.request_id().empty()) {
          return absl::InvalidArgumentError("request_id: must be set");
        }
        if (engine.Cancel(request.request_id())) return absl::OkStatus();
        return WithReason(absl::NotFoundError(absl::StrCat("request_id: '", request.request_id(),
                                                           "' is not in flight")),
                          "REQUEST_NOT_FOUND");
      });
}

}  // namespace hydrant::server
