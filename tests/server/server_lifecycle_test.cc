// What a server says before it has a model, while it drains, and when it cannot listen.

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/drain.h"
#include "server/grpc_server.h"
#include "tests/server/grpc_server_fixture.h"

namespace hydrant::server {
namespace {

using ServerLifecycleTest = GrpcServerTest;

TEST_F(ServerLifecycleTest, RefusesEverythingWhileLoading) {
  const Answer answer = Call(TextRequest("a"));
  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(DetailsOf(answer.status).error_info.reason(), "LOADING");
  EXPECT_TRUE(DetailsOf(answer.status).retry_info);
  grpc::ClientContext context;
  v1::GetLoadResponse load;
  EXPECT_EQ(stub_->GetLoad(&context, {}, &load).error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_NE(
      metrics_.Page().find("requests_rejected_total{model_name=\"fake\",reason=\"loading\"} 1"),
      std::string::npos);
}

TEST_F(ServerLifecycleTest, HealthIsServingOnlyWithAModel) {
  EXPECT_EQ(CheckHealth(""), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(CheckHealth("hydrant.v1.Generation"), HealthCheckResponse::NOT_SERVING);
  grpc::ClientContext watch_context, unknown_context, check_context;
  HealthCheckRequest request, unknown;
  unknown.set_service("another");
  HealthCheckResponse response;
  EXPECT_EQ(health_->Check(&check_context, unknown, &response).error_code(),
            grpc::StatusCode::NOT_FOUND);

  auto watch = health_->Watch(&watch_context, request);
  auto watch_unknown = health_->Watch(&unknown_context, unknown);
  ASSERT_TRUE(watch_unknown->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVICE_UNKNOWN);
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
  Load();
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  EXPECT_EQ(CheckHealth("hydrant.v1.Generation"), HealthCheckResponse::SERVING);
  server_->SetServing(false);
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);

  watch_context.TryCancel();
  EXPECT_EQ(watch->Finish().error_code(), grpc::StatusCode::CANCELLED);
  server_->Shutdown(std::chrono::system_clock::now());
  shut_down_ = true;
  EXPECT_EQ(watch_unknown->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(ServerLifecycleTest, ProbesAreToldApart) {
  const auto all = [&] {
    return std::vector{CheckHealth("startup"), CheckHealth("readiness"), CheckHealth("liveness")};
  };
  constexpr auto kYes = HealthCheckResponse::SERVING, kNo = HealthCheckResponse::NOT_SERVING;
  EXPECT_EQ(all(), (std::vector{kNo, kNo, kYes}));
  Load();
  EXPECT_EQ(all(), (std::vector{kYes, kYes, kYes}));
  server_->SetServing(false);
  EXPECT_EQ(all(), (std::vector{kYes, kNo, kYes}));
  server_->SetAlive(false);
  EXPECT_EQ(all(), (std::vector{kYes, kNo, kNo}));
}

TEST_F(ServerLifecycleTest, AFullQueueRefusesWhateverTheMessage) {
  Load();
  engine_->SetRoom(absl::ResourceExhaustedError("the queue is full"));
  // More than what is parsed at once, and of no meaning at all.
  const Answer answer = Call(TextRequest("a", std::string(1 << 20, 'a')));
  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(DetailsOf(answer.status).error_info.reason(), "QUEUE_FULL");
  EXPECT_TRUE(DetailsOf(answer.status).retry_info);
  EXPECT_NE(
      metrics_.Page().find("requests_rejected_total{model_name=\"fake\",reason=\"queue_full\"} 1"),
      std::string::npos);
}

TEST_F(ServerLifecycleTest, DrainLetsRunningRequestsFinish) {
  Load();
  grpc::ClientContext context;
  auto reader = stub_->Generate(&context, TextRequest("running"));
  engine_->Request(0);
  std::thread drain([&] { Drain(*server_, *engine_, metrics_, std::chrono::hours(1)); });
  shut_down_ = true;
  while (!engine_->load().draining) std::this_thread::yield();
  EXPECT_EQ(CheckHealth(""), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(Call(TextRequest("new")).status.error_code(), grpc::StatusCode::UNAVAILABLE);
  engine_->Emit("running", [](engine::ResponseSink& sink) { sink.OnDelta(TextDelta("end")); });
  engine_->Finish("running");
  const Answer answer = ReadAll(*reader);
  EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_EQ(answer.Text(), "end");
  drain.join();
}

TEST_F(ServerLifecycleTest, DrainEndsWhatDoesNotFinishInTime) {
  Load();
  grpc::ClientContext context;
  auto reader = stub_->Generate(&context, TextRequest("endless"));
  engine_->Request(0);
  shut_down_ = true;
  Drain(*server_, *engine_, metrics_, std::chrono::seconds(0));
  const Answer answer = ReadAll(*reader);
  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(answer.status.error_message(), "the server is shutting down");
}

TEST_F(ServerLifecycleTest, ATakenPortIsAClearError) {
  const auto second = GrpcServer::Start(absl::StrCat("127.0.0.1:", server_->port()), metrics_);
  ASSERT_FALSE(second.ok());
  const std::string message(second.status().message());
  EXPECT_NE(message.find(absl::StrCat("127.0.0.1:", server_->port())), std::string::npos);
  EXPECT_NE(message.find("Address already in use"), std::string::npos) << message;
  for (const char* nonsense : {"nowhere", "127.0.0.1:99999", "127.0.0.1:", "127.0.0.1:http"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(GrpcServer::Start(nonsense, metrics_).status()))
        << nonsense;
  }
}

}  // namespace
}  // namespace hydrant::server
