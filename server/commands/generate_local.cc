#include <future>
#include <utility>

#include "server/commands/generate_source.h"
#include "server/load_progress.h"
#include "server/proto_conversion.h"

namespace hydrant::server {
namespace {

constexpr char kRequestId[] = "local";

class Sink final : public engine::ResponseSink {
 public:
  Sink(const GenerateSource::OnEvent& on_event, std::promise<absl::Status>& end)
      : on_event_(on_event), end_(end) {}

  void OnPromptInfo(engine::PromptInfo info) override {
    v1::GenerateResponse response;
    ToProto(info, *response.mutable_prompt_info());
    on_event_(response);
  }
  void OnDelta(engine::Delta delta) override {
    v1::GenerateResponse response;
    ToProto(delta, *response.mutable_delta());
    on_event_(response);
  }
  void OnFinished(engine::Finished finished) override {
    v1::GenerateResponse response;
    ToProto(finished, *response.mutable_finished());
    on_event_(response);
    end_.set_value(absl::OkStatus());
  }
  void OnError(absl::Status status) override { end_.set_value(std::move(status)); }

 private:
  const GenerateSource::OnEvent& on_event_;
  std::promise<absl::Status>& end_;
};

class Local final : public GenerateSource {
 public:
  explicit Local(std::unique_ptr<engine::Engine> engine) : engine_(std::move(engine)) {}

  absl::Status Generate(v1::GenerateRequest request, const OnEvent& on_event) override {
    auto converted = FromProto(std::move(request));
    if (!converted.ok()) return converted.status();
    converted->request_id = kRequestId;
    std::promise<absl::Status> end;
    const absl::Status status =
        engine_->Submit(*std::move(converted), std::make_unique<Sink>(on_event, end));
    return status.ok() ? end.get_future().get() : status;
  }

  void Cancel() override { engine_->Cancel(kRequestId); }

 private:
  std::unique_ptr<engine::Engine> engine_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<GenerateSource>> LocalSource(const engine::EngineOptions& options) {
  const Log log;
  LoadProgress progress(log);
  auto engine = engine::Engine::Load(options, nullptr, [&](std::string_view stage, double ratio) {
    progress.Report(stage, ratio);
  });
  if (!engine.ok()) return engine.status();
  return std::make_unique<Local>(*std::move(engine));
}

}  // namespace hydrant::server
