#include "server/vllm_engine_service.h"

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/tokenizer/tokenizer.h"
#include "server/engine_door.h"
#include "server/error_status.h"
#include "server/proto_conversion.h"
#include "server/response_encoder.h"
#include "server/wire_message.h"
#include "wire/vllm_engine.grpc.pb.h"

namespace hydrant::server {
namespace {

namespace vllm = ::vllm::grpc::engine;

// ---- requests: by way of hydrant.v1, whose conversion checks them ----

absl::Status NotBuilt(const std::string& what) {
  return absl::UnimplementedError(absl::StrCat(what, ": not offered by this server"));
}

absl::Status CheckOffered(const vllm::GenerateRequest& request) {
  if (request.has_kv_transfer_params()) return NotBuilt("kv_transfer_params");
  if (request.has_kv_transfer_params_json()) return NotBuilt("kv_transfer_params_json");
  if (request.has_mm_inputs()) return NotBuilt("mm_inputs");
  if (request.extra_mm_inputs_size() > 0) return NotBuilt("extra_mm_inputs");
  if (request.has_media_refs()) return NotBuilt("media_refs");
  if (request.data_parallel_rank() != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data_parallel_rank: ", request.data_parallel_rank(), "; there is rank 0 only"));
  }
  const vllm::SamplingParams& sampling = request.sampling_params();
  if (sampling.n() > 1) return NotBuilt("sampling_params.n above 1");
  if (sampling.constraint_case() != vllm::SamplingParams::CONSTRAINT_NOT_SET) {
    const int number = sampling.constraint_case();
    const std::string& name = sampling.GetDescriptor()->FindFieldByNumber(number)->name();
    return NotBuilt(absl::StrCat("sampling_params.", name));
  }
  if (sampling.has_truncate_prompt_tokens()) {
    return NotBuilt("sampling_params.truncate_prompt_tokens");
  }
  return absl::OkStatus();
}

// INVALID_ARGUMENT for what an int32 does not hold.
template <typename Set>
absl::Status SetInt32(uint32_t value, const char* field, Set set) {
  if (value > static_cast<uint32_t>(INT32_MAX)) {
    return absl::InvalidArgumentError(
        absl::StrCat("sampling_params.", field, ": ", value, "; the limit is ", INT32_MAX));
  }
  set(static_cast<int32_t>(value));
  return absl::OkStatus();
}

absl::Status Convert(vllm::SamplingParams&& from, v1::GenerateRequest& request) {
  v1::SamplingParams& sampling = *request.mutable_sampling();
  v1::StoppingParams& stopping = *request.mutable_stopping();
  v1::OutputParams& output = *request.mutable_output();
  if (from.has_temperature()) sampling.set_temperature(from.temperature());
  if (from.top_p() != 0) sampling.set_top_p(from.top_p());
  if (from.min_p() != 0) sampling.set_min_p(from.min_p());
  if (from.frequency_penalty() != 0) sampling.set_frequency_penalty(from.frequency_penalty());
  if (from.presence_penalty() != 0) sampling.set_presence_penalty(from.presence_penalty());
  if (from.repetition_penalty() != 0) sampling.set_repetition_penalty(from.repetition_penalty());
  // A seed of 32 bits, as it is: -1 is one like any other.
  if (from.has_seed()) sampling.set_seed(static_cast<uint32_t>(from.seed()));
  for (const auto& [id, bias] : from.logit_bias()) {
    if (id < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("sampling_params.logit_bias: ", id, " is not a token id"));
    }
    (*sampling.mutable_logit_bias())[static_cast<uint32_t>(id)] = bias;
  }
  absl::Status status;
  if (from.top_k() != 0) {
    status.Update(SetInt32(from.top_k(), "top_k", [&](int32_t k) { sampling.set_top_k(k); }));
  }
  if (from.has_max_tokens()) {
    status.Update(
        SetInt32(from.max_tokens(), "max_tokens", [&](int32_t n) { stopping.set_max_tokens(n); }));
  }
  if (from.min_tokens() != 0) {
    status.Update(
        SetInt32(from.min_tokens(), "min_tokens", [&](int32_t n) { stopping.set_min_tokens(n); }));
  }
  stopping.mutable_stop()->Swap(from.mutable_stop());
  stopping.mutable_stop_token_ids()->Swap(from.mutable_stop_token_ids());
  stopping.set_ignore_eos(from.ignore_eos());
  stopping.set_include_stop_str_in_output(from.include_stop_str_in_output());
  output.set_skip_special_tokens(from.skip_special_tokens());
  if (from.has_logprobs()) output.set_logprobs(from.logprobs());
  if (from.has_prompt_logprobs()) output.set_prompt_logprobs(from.prompt_logprobs());
  return status;
}

absl::StatusOr<engine::GenerateRequest> Convert(vllm::GenerateRequest&& from) {
  if (absl::Status status = CheckOffered(from); !status.ok()) return status;
  v1::GenerateRequest request;
  request.set_request_id(std::move(*from.mutable_request_id()));
  if (from.has_tokenized()) {
    request.mutable_token_ids()->mutable_ids()->Swap(from.mutable_tokenized()->mutable_input_ids());
  } else if (from.has_text()) {
    request.set_text(std::move(*from.mutable_text()));
  } else {
    return absl::InvalidArgumentError("input: one of tokenized and text must be set");
  }
  absl::Status status = Convert(std::move(*from.mutable_sampling_params()), request);
  if (!status.ok()) return status;
  return FromProto(std::move(request));
}

// ---- responses ----

void Add(const engine::TokenLogprobs& token, vllm::TopLogProbs& top) {
  for (const engine::TopLogprob& entry : token.top) {
    top.add_values(entry.logprob);
    top.add_token_ids(entry.token_id);
  }
}

void Add(const std::vector<engine::TokenLogprobs>& tokens, vllm::OutputLogProbs& to) {
  for (const engine::TokenLogprobs& token : tokens) {
    to.add_token_logprobs(token.logprob.value_or(0));
    to.add_token_ids(token.token_id);
    Add(token, *to.add_top_logprobs());
  }
}

void Add(const std::vector<engine::TokenLogprobs>& tokens, vllm::InputLogProbs& to) {
  for (const engine::TokenLogprobs& token : tokens) {
    vllm::InputTokenLogProb& logprob = *to.add_token_logprobs();
    if (token.logprob) logprob.set_value(*token.logprob);
    to.add_token_ids(token.token_id);
    Add(token, *to.add_top_logprobs());
  }
}

class Encoder final : public ResponseEncoder {
 public:
  explicit Encoder(bool stream) : stream_(stream) {}

  grpc::Status Encode(const engine::PromptInfo& info, grpc::ByteBuffer*) override {
    prompt_tokens_ = info.prompt_tokens;
    if (info.prompt_logprobs.empty()) return grpc::Status::OK;
    Add(info.prompt_logprobs,
        stream_ ? *chunk().mutable_input_logprobs() : *complete_.mutable_input_logprobs());
    return grpc::Status::OK;
  }

  grpc::Status Encode(const engine::Delta& delta, grpc::ByteBuffer* bytes) override {
    complete_.mutable_output_ids()->Add(delta.token_ids.begin(), delta.token_ids.end());
    if (!stream_) {
      if (!delta.logprobs.empty()) Add(delta.logprobs, *complete_.mutable_output_logprobs());
      return grpc::Status::OK;
    }
    if (delta.token_ids.empty()) return grpc::Status::OK;  // text that was held back
    vllm::GenerateStreamChunk& to = chunk();
    to.mutable_token_ids()->Add(delta.token_ids.begin(), delta.token_ids.end());
    to.set_prompt_tokens(prompt_tokens_);
    to.set_completion_tokens(complete_.output_ids_size());
    if (!delta.logprobs.empty()) Add(delta.logprobs, *to.mutable_output_logprobs());
    const grpc::Status status = Serialize(response_, bytes);
    response_.Clear();
    return status;
  }

  grpc::Status Encode(const engine::Finished& finished, grpc::ByteBuffer* bytes) override {
    complete_.set_finish_reason(finished.reason == engine::FinishReason::kStop ? "stop" : "length");
    complete_.set_prompt_tokens(finished.usage.prompt_tokens);
    complete_.set_completion_tokens(finished.usage.completion_tokens);
    complete_.set_cached_tokens(finished.usage.cached_prompt_tokens);
    if (const auto* stop = std::get_if<std::string>(&finished.matched)) {
      complete_.set_matched_stop_str(*stop);
    } else if (const auto* id = std::get_if<int32_t>(&finished.matched)) {
      complete_.set_matched_token_id(*id);
    }
    response_.mutable_complete()->Swap(&complete_);
    return Serialize(response_, bytes);
  }

 private:
  vllm::GenerateStreamChunk& chunk() { return *response_.mutable_chunk(); }

  const bool stream_;
  int32_t prompt_tokens_ = 0;
  vllm::GenerateResponse response_;
  vllm::GenerateComplete complete_;  // as far as it is known
};

absl::StatusOr<EngineDoor::GenerateCall> ParseGenerate(const grpc::ByteBuffer& bytes) {
  auto message = Parse<vllm::GenerateRequest>(bytes);
  if (!message.ok()) return message.status();
  const bool stream = message->stream();
  auto request = Convert(*std::move(message));
  if (!request.ok()) return request.status();
  return EngineDoor::GenerateCall{*std::move(request), std::make_unique<Encoder>(stream)};
}

// ---- the service ----

// The generated base with every method raw.
using RawService = vllm::VllmEngine::WithRawCallbackMethod_Generate<
    vllm::VllmEngine::WithRawCallbackMethod_HealthCheck<
        vllm::VllmEngine::WithRawCallbackMethod_Abort<
            vllm::VllmEngine::WithRawCallbackMethod_GetModelInfo<
                vllm::VllmEngine::WithRawCallbackMethod_GetServerInfo<
                    vllm::VllmEngine::WithRawCallbackMethod_GetLoads<
                        vllm::VllmEngine::Service>>>>>>;

class VllmEngineService final : public RawService {
 public:
  explicit VllmEngineService(EngineDoor& door) : door_(door) {}

  grpc::ServerWriteReactor<grpc::ByteBuffer>* Generate(grpc::CallbackServerContext* context,
                                                       const grpc::ByteBuffer* request) override {
    return door_.Generate(context, request, &ParseGenerate);
  }

  grpc::ServerUnaryReactor* HealthCheck(grpc::CallbackServerContext* context,
                                        const grpc::ByteBuffer*,
                                        grpc::ByteBuffer* response) override {
    vllm::HealthCheckResponse health;
    const auto engine = door_.LoadedEngine();
    if (!engine.ok()) {
      health.set_message(std::string(engine.status().message()));
    } else {
      const engine::LoadStats load = (*engine)->load();
      health.set_healthy(load.healthy && !load.draining);
      health.set_message(!load.healthy   ? "the engine is dead"
                         : load.draining ? "the server is draining"
                                         : "serving");
    }
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(Serialize(health, response));
    return reactor;
  }

  grpc::ServerUnaryReactor* Abort(grpc::CallbackServerContext* context,
                                  const grpc::ByteBuffer* request,
                                  grpc::ByteBuffer* response) override {
    return door_.Unary<vllm::AbortRequest, vllm::AbortResponse>(
        context, request, response,
        [](engine::Engine& engine, vllm::AbortRequest&& request, vllm::AbortResponse&) {
          for (const std::string& id : request.request_ids()) engine.Cancel(id);
          return absl::OkStatus();
        });
  }

  grpc::ServerUnaryReactor* GetModelInfo(grpc::CallbackServerContext* context,
                                         const grpc::ByteBuffer* request,
                                         grpc::ByteBuffer* response) override {
    return door_.Unary<vllm::GetModelInfoRequest, vllm::GetModelInfoResponse>(
        context, request, response,
        [](engine::Engine& engine, vllm::GetModelInfoRequest&&, vllm::GetModelInfoResponse& to) {
          const engine::ModelInfo& info = engine.model_info();
          to.set_model_path(info.name);
          to.set_served_model_name(info.name);
          to.set_is_generation(true);
          to.set_model_type(info.architecture);
          to.set_max_context_length(info.max_model_len);
          to.set_max_req_input_len(info.max_model_len - 1);
          to.set_vocab_size(info.vocab_size);
          to.mutable_eos_token_ids()->Add(info.eos_token_ids.begin(), info.eos_token_ids.end());
          if (const auto bos = engine.tokenizer().bos_id()) to.set_bos_token_id(*bos);
          return absl::OkStatus();
        });
  }

  grpc::ServerUnaryReactor* GetServerInfo(grpc::CallbackServerContext* context,
                                          const grpc::ByteBuffer* request,
                                          grpc::ByteBuffer* response) override {
    return door_.Unary<vllm::GetServerInfoRequest, vllm::GetServerInfoResponse>(
        context, request, response,
        [this](engine::Engine& engine, vllm::GetServerInfoRequest&&,
               vllm::GetServerInfoResponse& to) {
          const engine::LoadStats load = engine.load();
          to.set_active_requests(load.running + load.waiting);
          to.set_is_paused(load.draining);
          to.set_uptime_seconds(std::chrono::duration<double>(Clock::now() - started_).count());
          to.set_server_type("hydrant");
          to.set_data_parallel_size(1);
          const engine::ModelInfo& info = engine.model_info();
          to.set_kv_cache_dtype(info.kv_dtype);
          to.set_block_size(info.block_slots);
          to.set_model_dtype(info.weight_dtype);
          return absl::OkStatus();
        });
  }

  grpc::ServerUnaryReactor* GetLoads(grpc::CallbackServerContext* context,
                                     const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) override {
    return door_.Unary<vllm::GetLoadsRequest, vllm::GetLoadsResponse>(
        context, request, response,
        [](engine::Engine& engine, vllm::GetLoadsRequest&&, vllm::GetLoadsResponse& to) {
          const engine::LoadStats load = engine.load();
          to.set_timestamp(absl::FormatTime(absl::RFC3339_full, absl::Now(), absl::UTCTimeZone()));
          to.set_version(HYDRANT_VERSION);
          to.set_dp_rank_count(1);
          vllm::SchedulerLoad& rank = *to.add_loads();
          rank.set_num_running_reqs(load.running);
          rank.set_num_waiting_reqs(load.waiting);
          rank.set_num_total_reqs(load.running + load.waiting);
          const int32_t slots = engine.model_info().block_slots;
          const int32_t used = load.kv_blocks_total - load.kv_blocks_free;
          rank.set_num_used_tokens(used * slots);
          rank.set_max_total_num_tokens(load.kv_blocks_total * slots);
          if (load.kv_blocks_total > 0) rank.set_token_usage(double(used) / load.kv_blocks_total);
          rank.set_num_waiting_uncached_tokens(static_cast<int32_t>(load.waiting_tokens));
          return absl::OkStatus();
        });
  }

 private:
  using Clock = std::chrono::steady_clock;

  EngineDoor& door_;
  const Clock::time_point started_ = Clock::now();
};

}  // namespace

std::unique_ptr<grpc::Service> MakeVllmEngineService(EngineDoor& door) {
  return std::make_unique<VllmEngineService>(door);
}

}  // namespace hydrant::server
