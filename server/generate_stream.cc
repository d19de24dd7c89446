#include "server/generate_stream.h"

#include <grpcpp/server_context.h>

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "server/error_status.h"
#include "server/load_report.h"

namespace hydrant::server {
namespace {

// gRPC's own deadline timer and the engine's clock do not agree to the microsecond.
constexpr std::chrono::milliseconds kDeadlineTolerance(20);

absl::Status TooSlow(int64_t buffer_bytes) {
  return WithReason(absl::ResourceExhaustedError(
                        absl::StrCat("the client left more than ", buffer_bytes,
                                     " bytes of its answer unread, which is stream_buffer_bytes")),
                    "SLOW_READER");
}

std::optional<TraceContext> TraceOf(const grpc::CallbackServerContext& call) {
  const auto header = call.client_metadata().find("traceparent");
  if (header == call.client_metadata().end()) return std::nullopt;
  return ParseTraceparent({header->second.data(), header->second.size()});
}

}  // namespace

class GenerateStream::Sink final : public engine::ResponseSink {
 public:
  // `echo`: the first delta is the prompt once more.
  Sink(std::shared_ptr<GenerateStream> stream, bool echo)
      : stream_(std::move(stream)), echo_(echo) {}

  void OnPromptInfo(engine::PromptInfo info) override {
    stream_->CountPrompt(info.prompt_tokens);
    stream_->Receive([&](ResponseBuffer& buffer) { buffer.Push(std::move(info)); });
  }
  void OnDelta(engine::Delta delta) override {
    if (!std::exchange(echo_, false)) {
      stream_->CountCompletion(static_cast<int64_t>(delta.token_ids.size()));
    }
    stream_->Receive([&](ResponseBuffer& buffer) { buffer.Push(std::move(delta)); });
  }
  void OnFinished(engine::Finished finished) override {
    stream_->Receive([&](ResponseBuffer& buffer) { buffer.End(std::move(finished)); });
  }
  void OnError(absl::Status status) override {
    stream_->Receive([&](ResponseBuffer& buffer) { buffer.End(std::move(status)); });
  }

 private:
  std::shared_ptr<GenerateStream> stream_;
  bool echo_;
};

GenerateStream* GenerateStream::Create(const StreamContext& context,
                                       grpc::CallbackServerContext& call,
                                       std::optional<Clock::time_point> deadline,
                                       std::unique_ptr<Tenants::Lease> lease) {
  auto stream = std::make_shared<GenerateStream>(context, call, deadline, std::move(lease));
  stream->self_ = stream;
  return stream.get();
}

GenerateStream::GenerateStream(const StreamContext& context, grpc::CallbackServerContext& call,
                               std::optional<Clock::time_point> deadline,
                               std::unique_ptr<Tenants::Lease> lease)
    : context_(context), call_(call), deadline_(deadline), lease_(std::move(lease)) {
  record_.peer = call.peer();
  record_.trace = TraceOf(call);
  if (lease_) record_.tenant = lease_->name();
  context_.metrics.StreamOpened();
}

GenerateStream::~GenerateStream() = default;

void GenerateStream::Submit(std::shared_ptr<engine::Engine> engine, engine::GenerateRequest request,
                            std::unique_ptr<ResponseEncoder> encoder) {
  const std::shared_ptr<GenerateStream> self = shared_from_this();  // Finish may let go of it
  encoder_ = std::move(encoder);
  {
    std::lock_guard lock(mutex_);
    request_id_ = request.request_id;
    record_.request_id = request_id_;
    if (context_.log != nullptr && context_.log_prompts) record_.prompt = PromptText(request);
    engine_ = engine;
    reporting_ = engine;
  }
  const bool echo = request.output.echo.value_or(false);
  const absl::Status status =
      engine->Submit(std::move(request), std::make_unique<Sink>(self, echo), deadline_);
  if (!status.ok()) {
    {
      std::lock_guard lock(mutex_);
      engine_.reset();
    }
    Refuse(status);
    return;
  }
  bool cancelled_meanwhile;
  {
    std::lock_guard lock(mutex_);
    cancelled_meanwhile = client_gone_;
  }
  if (cancelled_meanwhile) CancelInEngine();
}

void GenerateStream::Refuse(const absl::Status& status) { End(status); }

void GenerateStream::End(const absl::Status& status) {
  {
    std::lock_guard lock(mutex_);
    record_.status = status;
  }
  AddLoadReport(nullptr);
  Finish(ToGrpcStatus(status));
}

void GenerateStream::AddLoadReport(const engine::Usage* usage) {
  std::shared_ptr<const engine::Engine> engine;
  {
    std::lock_guard lock(mutex_);
    engine = reporting_.lock();
  }
  if (engine) call_.AddTrailingMetadata(kLoadReportTrailer, LoadReport(engine->load(), usage));
}

void GenerateStream::CountPrompt(int64_t tokens) {
  {
    std::lock_guard lock(mutex_);
    record_.prompt_tokens = tokens;
  }
  if (lease_) lease_->Charge(tokens);
}

void GenerateStream::CountCompletion(int64_t tokens) {
  {
    std::lock_guard lock(mutex_);
    if (record_.completion_tokens == 0) record_.time_to_first_token = Clock::now() - opened_;
    record_.completion_tokens += tokens;
  }
  if (lease_) lease_->Charge(tokens);
}

template <typename Push>
void GenerateStream::Receive(Push push) {
  {
    std::lock_guard lock(mutex_);
    push(buffer_);
    if (buffer_.ended()) engine_.reset();  // the id may be another request's from now on
    if (static_cast<int64_t>(buffer_.held_bytes()) > context_.buffer_bytes && !too_slow_) {
      too_slow_ = true;
      context_.writer.Post([self = shared_from_this()] { self->CancelInEngine(); });
    }
    if (client_gone_ || too_slow_) buffer_.DropPending();
    if (too_slow_ && buffer_.ended()) buffer_.End(TooSlow(context_.buffer_bytes));
    if (writing_ || pump_posted_) return;
    pump_posted_ = true;
  }
  context_.writer.Post([self = shared_from_this()] {
    {
      std::lock_guard lock(self->mutex_);
      self->pump_posted_ = false;
    }
    self->Pump();
  });
}

void GenerateStream::Pump() {
  {
    std::lock_guard lock(mutex_);
    if (writing_) return;
    writing_ = true;
  }
  bytes_.Clear();
  bool last = false;
  while (!bytes_.Valid()) {
    std::optional<ResponseBuffer::Event> event;
    {
      std::lock_guard lock(mutex_);
      event = buffer_.Pop();
      if (!event) {
        writing_ = false;
        return;
      }
    }
    if (const auto* status = std::get_if<absl::Status>(&*event)) {
      End(*status);
      return;
    }
    if (const grpc::Status encoded = Encode(*event); !encoded.ok()) {
      CancelInEngine();
      End(absl::InternalError(encoded.error_message()));
      return;
    }
    if (auto* finished = std::get_if<engine::Finished>(&*event)) {
      AddLoadReport(&finished->usage);
      std::lock_guard lock(mutex_);
      record_.finished = std::move(*finished);
      last = true;
    }
  }
  if (last) {
    StartWriteAndFinish(&bytes_, grpc::WriteOptions(), grpc::Status::OK);
  } else {
    StartWrite(&bytes_);
  }
}

grpc::Status GenerateStream::Encode(const ResponseBuffer::Event& event) {
  if (const auto* info = std::get_if<engine::PromptInfo>(&event)) {
    return encoder_->Encode(*info, &bytes_);
  }
  if (const auto* delta = std::get_if<engine::Delta>(&event)) {
    return encoder_->Encode(*delta, &bytes_);
  }
  return encoder_->Encode(std::get<engine::Finished>(event), &bytes_);
}

void GenerateStream::OnWriteDone(bool ok) {
  {
    std::lock_guard lock(mutex_);
    writing_ = false;
    if (!ok) {
      client_gone_ = true;
      buffer_.DropPending();
    }
  }
  if (!ok) CancelInEngine();
  Pump();
}

void GenerateStream::OnCancel() {
  {
    std::lock_guard lock(mutex_);
    client_gone_ = true;
    buffer_.DropPending();
  }
  // A deadline ends the call here, too, and the engine ends the request by itself.
  if (deadline_ && std::chrono::steady_clock::now() + kDeadlineTolerance >= *deadline_) return;
  CancelInEngine();
}

void GenerateStream::CancelInEngine() {
  std::shared_ptr<engine::Engine> engine;
  {
    std::lock_guard lock(mutex_);
    engine = engine_;
  }
  if (engine) engine->Cancel(request_id_);
}

void GenerateStream::OnDone() {
  lease_.reset();
  context_.metrics.StreamClosed();
  if (context_.log != nullptr) {
    std::lock_guard lock(mutex_);
    record_.time = Clock::now() - opened_;
    context_.log->Info("request", RequestFields(record_));
  }
  self_.reset();
}

}  // namespace hydrant::server
