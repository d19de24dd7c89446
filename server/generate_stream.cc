#include "server/generate_stream.h"

#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/server_context.h>

#include <utility>
#include <variant>

#include "server/error_status.h"
#include "server/load_report.h"
#include "server/proto_conversion.h"

namespace hydrant::server {
namespace {

// gRPC's own deadline timer and the engine's clock do not agree to the microsecond.
constexpr std::chrono::milliseconds kDeadlineTolerance(20);

}  // namespace

class GenerateStream::Sink final : public engine::ResponseSink {
 public:
  explicit Sink(std::shared_ptr<GenerateStream> stream) : stream_(std::move(stream)) {}

  void OnPromptInfo(engine::PromptInfo info) override {
    stream_->Receive([&](ResponseBuffer& buffer) { buffer.Push(std::move(info)); });
  }
  void OnDelta(engine::Delta delta) override {
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
};

GenerateStream* GenerateStream::Create(
    Executor& writer, Metrics& metrics, grpc::CallbackServerContext& context,
    std::optional<std::chrono::steady_clock::time_point> deadline) {
  auto stream = std::make_shared<GenerateStream>(writer, metrics, context, deadline);
  stream->self_ = stream;
  return stream.get();
}

GenerateStream::GenerateStream(Executor& writer, Metrics& metrics,
                               grpc::CallbackServerContext& context,
                               std::optional<std::chrono::steady_clock::time_point> deadline)
    : writer_(writer), metrics_(metrics), context_(context), deadline_(deadline) {
  metrics_.StreamOpened();
}

GenerateStream::~GenerateStream() = default;

void GenerateStream::Submit(std::shared_ptr<engine::Engine> engine,
                            engine::GenerateRequest request) {
  const std::shared_ptr<GenerateStream> self = shared_from_this();  // Finish may let go of it
  {
    std::lock_guard lock(mutex_);
    request_id_ = request.request_id;
    engine_ = engine;
    reporting_ = engine;
  }
  const absl::Status status =
      engine->Submit(std::move(request), std::make_unique<Sink>(self), deadline_);
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

void GenerateStream::Refuse(const absl::Status& status) {
  AddLoadReport(nullptr);
  Finish(ToGrpcStatus(status));
}

void GenerateStream::AddLoadReport(const engine::Usage* usage) {
  std::shared_ptr<const engine::Engine> engine;
  {
    std::lock_guard lock(mutex_);
    engine = reporting_.lock();
  }
  if (engine) context_.AddTrailingMetadata(kLoadReportTrailer, LoadReport(engine->load(), usage));
}

template <typename Push>
void GenerateStream::Receive(Push push) {
  {
    std::lock_guard lock(mutex_);
    push(buffer_);
    if (buffer_.ended()) engine_.reset();  // the id may be another request's from now on
    if (client_gone_) buffer_.DropPending();
    if (writing_ || pump_posted_) return;
    pump_posted_ = true;
  }
  writer_.Post([self = shared_from_this()] {
    {
      std::lock_guard lock(self->mutex_);
      self->pump_posted_ = false;
    }
    self->Pump();
  });
}

void GenerateStream::Pump() {
  std::optional<ResponseBuffer::Event> event;
  {
    std::lock_guard lock(mutex_);
    if (writing_) return;
    event = buffer_.Pop();
    if (!event) return;
    writing_ = true;
  }
  if (const auto* status = std::get_if<absl::Status>(&*event)) {
    Refuse(*status);
    return;
  }
  response_.Clear();
  bytes_.Clear();
  bool last = false;
  if (const auto* info = std::get_if<engine::PromptInfo>(&*event)) {
    ToProto(*info, *response_.mutable_prompt_info());
  } else if (const auto* delta = std::get_if<engine::Delta>(&*event)) {
    ToProto(*delta, *response_.mutable_delta());
  } else {
    const auto& finished = std::get<engine::Finished>(*event);
    ToProto(finished, *response_.mutable_finished());
    AddLoadReport(&finished.usage);
    last = true;
  }
  bool own_buffer;
  const grpc::Status serialized =
      grpc::SerializationTraits<v1::GenerateResponse>::Serialize(response_, &bytes_, &own_buffer);
  if (!serialized.ok()) {
    CancelInEngine();
    Finish(serialized);
    return;
  }
  if (last) {
    StartWriteAndFinish(&bytes_, grpc::WriteOptions(), grpc::Status::OK);
  } else {
    StartWrite(&bytes_);
  }
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
  metrics_.StreamClosed();
  self_.reset();
}

}  // namespace hydrant::server
