// A server on a free port with a fake engine behind it, and a client of it.

#ifndef HYDRANT_TESTS_SERVER_GRPC_SERVER_FIXTURE_H_
#define HYDRANT_TESTS_SERVER_GRPC_SERVER_FIXTURE_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "hydrant/v1/generation.grpc.pb.h"
#include "server/grpc_server.h"
#include "tests/server/fake_engine.h"
#include "wire/health.grpc.pb.h"
#include "wire/rpc_status.pb.h"

namespace hydrant::server {

using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

inline v1::GenerateRequest TextRequest(const std::string& id, const std::string& text = "hello") {
  v1::GenerateRequest request;
  request.set_request_id(id);
  request.set_text(text);
  return request;
}

inline engine::Delta TextDelta(const std::string& text, std::vector<int32_t> ids = {}) {
  engine::Delta delta;
  delta.text = text;
  delta.token_ids = std::move(ids);
  return delta;
}

// What rpc_status clients decode from the trailer.
struct Details {
  google::rpc::Status status;
  google::rpc::ErrorInfo error_info;
  std::optional<google::rpc::RetryInfo> retry_info;
};
inline Details DetailsOf(const grpc::Status& status) {
  Details details;
  EXPECT_TRUE(details.status.ParseFromString(status.error_details()));
  for (const auto& any : details.status.details()) {
    google::rpc::RetryInfo retry;
    if (any.UnpackTo(&retry)) details.retry_info = retry;
    any.UnpackTo(&details.error_info);
  }
  return details;
}

class GrpcServerTest : public testing::Test {
 protected:
  GrpcServerTest() {
    auto started = GrpcServer::Start("127.0.0.1:0", metrics_);
    EXPECT_TRUE(started.ok()) << started.status();
    server_ = *std::move(started);
    channel_ = grpc::CreateChannel(absl::StrCat("127.0.0.1:", server_->port()),
                                   grpc::InsecureChannelCredentials());
    stub_ = v1::Generation::NewStub(channel_);
    health_ = Health::NewStub(channel_);
  }
  ~GrpcServerTest() override {
    if (!shut_down_) server_->Shutdown(std::chrono::system_clock::now());
  }

  void Load() {
    server_->SetEngine(engine_);
    server_->SetServing(true);
  }

  struct Answer {
    std::vector<v1::GenerateResponse> events;
    grpc::Status status;
    std::string Text() const {
      std::string text;
      for (const auto& event : events) text += event.delta().text();
      return text;
    }
    bool Finished() const { return !events.empty() && events.back().has_finished(); }
  };
  Answer ReadAll(grpc::ClientReader<v1::GenerateResponse>& reader) {
    Answer answer;
    v1::GenerateResponse event;
    while (reader.Read(&event)) answer.events.push_back(event);
    answer.status = reader.Finish();
    return answer;
  }
  // A whole call; `act` drives the engine meanwhile.
  Answer Call(
      const v1::GenerateRequest& request, const std::function<void()>& act = [] {}) {
    grpc::ClientContext context;
    auto reader = stub_->Generate(&context, request);
    act();
    return ReadAll(*reader);
  }

  HealthCheckResponse::ServingStatus CheckHealth(const std::string& service) {
    grpc::ClientContext context;
    HealthCheckRequest request;
    HealthCheckResponse response;
    request.set_service(service);
    EXPECT_TRUE(health_->Check(&context, request, &response).ok());
    return response.status();
  }

  Metrics metrics_{"fake", MetricNames::kHydrant};
  std::shared_ptr<FakeEngine> engine_ = std::make_shared<FakeEngine>();
  std::unique_ptr<GrpcServer> server_;
  bool shut_down_ = false;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Generation::Stub> stub_;
  std::unique_ptr<Health::Stub> health_;
};

}  // namespace hydrant::server

#endif  // HYDRANT_TESTS_SERVER_GRPC_SERVER_FIXTURE_H_
