#include "server/generation_service.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/tokenizer/tokenizer.h"
#include "server/error_status.h"
#include "server/proto_conversion.h"
#include "server/response_encoder.h"
#include "server/wire_message.h"

namespace hydrant::server {
namespace {

class Encoder final : public ResponseEncoder {
 public:
  grpc::Status Encode(const engine::PromptInfo& info, grpc::ByteBuffer* bytes) override {
    response_.Clear();
    ToProto(info, *response_.mutable_prompt_info());
    return Serialize(response_, bytes);
  }
  grpc::Status Encode(const engine::Delta& delta, grpc::ByteBuffer* bytes) override {
    response_.Clear();
    ToProto(delta, *response_.mutable_delta());
    return Serialize(response_, bytes);
  }
  grpc::Status Encode(const engine::Finished& finished, grpc::ByteBuffer* bytes) override {
    response_.Clear();
    ToProto(finished, *response_.mutable_finished());
    return Serialize(response_, bytes);
  }

 private:
  v1::GenerateResponse response_;
};

absl::StatusOr<EngineDoor::GenerateCall> ParseGenerate(const grpc::ByteBuffer& bytes) {
  auto message = Parse<v1::GenerateRequest>(bytes);
  if (!message.ok()) return message.status();
  auto request = FromProto(*std::move(message));
  if (!request.ok()) return request.status();
  return EngineDoor::GenerateCall{*std::move(request), std::make_unique<Encoder>()};
}

}  // namespace

grpc::ServerWriteReactor<grpc::ByteBuffer>* GenerationService::Generate(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request) {
  return door_.Generate(context, request, &ParseGenerate);
}

grpc::ServerUnaryReactor* GenerationService::Tokenize(grpc::CallbackServerContext* context,
                                                      const grpc::ByteBuffer* request,
                                                      grpc::ByteBuffer* response) {
  return door_.Unary<v1::TokenizeRequest, v1::TokenizeResponse>(
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
  return door_.Unary<v1::DetokenizeRequest, v1::DetokenizeResponse>(
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
  return door_.Unary<v1::GetModelInfoRequest, v1::GetModelInfoResponse>(
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
  return door_.Unary<v1::GetLoadRequest, v1::GetLoadResponse>(
      context, request, response,
      [](engine::Engine& engine, v1::GetLoadRequest&&, v1::GetLoadResponse& response) {
        ToProto(engine.load(), response);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* GenerationService::Abort(grpc::CallbackServerContext* context,
                                                   const grpc::ByteBuffer* request,
                                                   grpc::ByteBuffer* response) {
  return door_.Unary<v1::AbortRequest, v1::AbortResponse>(
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
