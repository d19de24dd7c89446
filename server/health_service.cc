#include "server/health_service.h"

#include <grpcpp/server_context.h>

#include <optional>
#include <string>
#include <utility>

namespace hydrant::server {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

std::optional<HealthService::Aspect> AspectOf(const std::string& service) {
  using Aspect = HealthService::Aspect;
  if (service.empty() || service == "hydrant.v1.Generation" ||
      service == "vllm.grpc.engine.VllmEngine" || service == "readiness") {
    return Aspect::kReadiness;
  }
  if (service == "startup") return Aspect::kStartup;
  if (service == "liveness") return Aspect::kLiveness;
  return std::nullopt;
}

HealthCheckResponse::ServingStatus ToProto(bool serving) {
  return serving ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING;
}

grpc::Status ShuttingDown() {
  return grpc::Status(grpc::StatusCode::UNAVAILABLE, "the server is shutting down");
}

}  // namespace

// One Watch call. Statuses that follow each other faster than the client reads are skipped.
class HealthService::Watcher final : public grpc::ServerWriteReactor<HealthCheckResponse> {
 public:
  // `aspect`: nullopt for a service that is none of ours.
  Watcher(HealthService& service, std::optional<Aspect> aspect)
      : service_(service), aspect_(aspect) {}

  std::optional<Aspect> aspect() const { return aspect_; }

  void Send(bool serving) {
    std::lock_guard lock(mutex_);
    // An unknown service's call stays open, by the protocol: it might become known.
    wanted_ = aspect_ ? ToProto(serving) : HealthCheckResponse::SERVICE_UNKNOWN;
    Proceed();
  }

  void End(const grpc::Status& status) {
    std::lock_guard lock(mutex_);
    if (!end_) end_ = status;
    Proceed();
  }

  void OnWriteDone(bool ok) override {
    std::lock_guard lock(mutex_);
    writing_ = false;
    Proceed();
  }
  void OnCancel() override { End(grpc::Status::CANCELLED); }
  void OnDone() override {
    std::lock_guard lock(service_.mutex_);
    for (auto it = service_.watchers_.begin(); it != service_.watchers_.end(); ++it) {
      if (it->get() != this) continue;
      service_.watchers_.erase(it);  // and with it this
      return;
    }
  }

 private:
  // Starts what comes next, one operation at a time. (gRPC runs no reaction within the calls.)
  void Proceed() {
    if (writing_ || finished_) return;
    if (end_) {
      finished_ = true;
      Finish(*end_);
    } else if (wanted_ && wanted_ != sent_) {
      writing_ = true;
      sent_ = wanted_;
      response_.set_status(*wanted_);
      StartWrite(&response_);
    }
  }

  HealthService& service_;
  const std::optional<Aspect> aspect_;
  std::mutex mutex_;
  std::optional<HealthCheckResponse::ServingStatus> wanted_, sent_;
  std::optional<grpc::Status> end_;
  bool writing_ = false;
  bool finished_ = false;
  HealthCheckResponse response_;
};

HealthService::HealthService() = default;
HealthService::~HealthService() = default;

void HealthService::Set(Aspect aspect, bool serving) {
  std::lock_guard lock(mutex_);
  serving_[static_cast<size_t>(aspect)] = serving;
  for (const auto& watcher : watchers_) {
    if (watcher->aspect() == aspect) watcher->Send(serving);
  }
}

void HealthService::Shutdown() {
  std::lock_guard lock(mutex_);
  shut_down_ = true;
  for (const auto& watcher : watchers_) watcher->End(ShuttingDown());
}

grpc::ServerUnaryReactor* HealthService::Check(grpc::CallbackServerContext* context,
                                               const HealthCheckRequest* request,
                                               HealthCheckResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const std::optional<Aspect> aspect = AspectOf(request->service());
  if (!aspect) {
    reactor->Finish(grpc::Status(grpc::StatusCode::NOT_FOUND, "unknown service"));
    return reactor;
  }
  {
    std::lock_guard lock(mutex_);
    response->set_status(ToProto(serving_[static_cast<size_t>(*aspect)]));
  }
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerWriteReactor<HealthCheckResponse>* HealthService::Watch(
    grpc::CallbackServerContext* context, const HealthCheckRequest* request) {
  const std::optional<Aspect> aspect = AspectOf(request->service());
  auto watcher = std::make_shared<Watcher>(*this, aspect);
  std::lock_guard lock(mutex_);
  watchers_.insert(watcher);
  watcher->Send(aspect && serving_[static_cast<size_t>(*aspect)]);
  if (shut_down_) watcher->End(ShuttingDown());
  return watcher.get();
}

}  // namespace hydrant::server
