// The bench's client and driver against a server in this process.

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/bench/arrivals.h"
#include "server/bench/client.h"
#include "server/bench/load_driver.h"
#include "server/bench/statistics.h"
#include "tests/server/grpc_server_fixture.h"

namespace hydrant::server::bench {
namespace {

// Requests called "0", "1", …
class Numbered final : public RequestSource {
 public:
  v1::GenerateRequest Make(int64_t number) const override {
    return TextRequest(absl::StrCat(number));
  }
};

class BenchClientTest : public GrpcServerTest {
 protected:
  using Records = std::vector<RequestRecord>;

  BenchClientTest() { Load(); }

  LoadDriver Closed(int at_once, int64_t requests) {
    LoadLimits limits;
    limits.requests = requests;
    return LoadDriver(client_, source_, ClosedArrivals(MakeSteps(at_once, at_once, 1, 0)), limits);
  }
  static std::future<Records> Start(LoadDriver& driver) {
    return std::async(std::launch::async, [&] { return driver.Run(); });
  }
  // Answers the n-th request that came, with `tokens` tokens, the last two in one message.
  void Answer(size_t n, int tokens) {
    const std::string id = engine_->Request(n).request.request_id;
    engine_->Emit(id, [&](engine::ResponseSink& sink) {
      engine::PromptInfo info;
      info.request_id = id;
      info.prompt_tokens = 7;
      sink.OnPromptInfo(info);
      for (int i = 2; i < tokens; ++i) sink.OnDelta(TextDelta("a", {1}));
      sink.OnDelta(TextDelta("", {}));  // text that is held back
      sink.OnDelta(TextDelta("bc", {2, 3}));
    });
    engine_->Finish(id);
  }

  std::unique_ptr<Client> made_ = *Client::Make(absl::StrCat("127.0.0.1:", server_->port()));
  Client& client_ = *made_;
  Numbered source_;
};

TEST_F(BenchClientTest, RecordsEveryTokenOfAnAnswer) {
  LoadDriver driver = Closed(1, 1);
  std::future<Records> done = Start(driver);
  Answer(0, 5);
  const Records records = done.get();
  ASSERT_EQ(records.size(), 1);
  const RequestRecord& record = records[0];
  EXPECT_TRUE(record.status.ok()) << record.status;
  EXPECT_TRUE(record.usage);
  EXPECT_FALSE(record.interrupted);
  EXPECT_EQ(record.prompt_tokens, 7);
  int32_t tokens = 0;
  double before = record.sent;
  for (const TokenArrival& arrival : record.arrivals) {
    EXPECT_GT(arrival.tokens, 0);
    EXPECT_GE(arrival.seconds, before);
    before = arrival.seconds;
    tokens += arrival.tokens;
  }
  EXPECT_EQ(tokens, 5);
  EXPECT_EQ(client_.tokens(), 5);
  EXPECT_LE(record.scheduled, record.sent);
  EXPECT_GE(record.ended, before);
}

TEST_F(BenchClientTest, AClosedLoopKeepsItsNumberOpen) {
  LoadDriver driver = Closed(2, 4);
  std::future<Records> done = Start(driver);
  engine_->Request(1);
  while (driver.progress().open != 2) std::this_thread::yield();
  for (int i = 0; i < 4; ++i) Answer(i, 3);
  EXPECT_EQ(done.get().size(), 4);
  EXPECT_EQ(driver.progress().ended, 4);
  EXPECT_EQ(driver.progress().not_served, 0);
}

TEST_F(BenchClientTest, AnOpenLoopDoesNotWaitForAnswers) {
  LoadDriver driver(client_, source_, GivenArrivals({0, 0.001, 0.002, 0.002}), {});
  std::future<Records> done = Start(driver);
  engine_->Request(3);  // all are there before any is answered
  for (int i = 0; i < 4; ++i) Answer(i, 3);
  const Records records = done.get();
  ASSERT_EQ(records.size(), 4);
  double scheduled = 0;
  for (const RequestRecord& record : records) scheduled += record.scheduled;
  EXPECT_DOUBLE_EQ(scheduled, 0.005);
}

TEST_F(BenchClientTest, RefusalsAndFailuresKeepTheirStatus) {
  engine_->RefuseWith(absl::ResourceExhaustedError("queue: full"));
  LoadDriver refused = Closed(1, 2);
  for (const RequestRecord& record : Start(refused).get()) {
    EXPECT_EQ(OutcomeOf(record), Outcome::kRefused);
    EXPECT_NE(record.status.message().find("queue: full"), absl::string_view::npos);
  }
  EXPECT_EQ(refused.progress().not_served, 2);

  engine_->RefuseWith(absl::OkStatus());
  LoadDriver failed = Closed(1, 1);
  std::future<Records> done = Start(failed);
  engine_->Request(0);
  engine_->Fail("0", absl::InternalError("fault"));
  EXPECT_EQ(OutcomeOf(done.get()[0]), Outcome::kFailed);
}

TEST_F(BenchClientTest, StoppingInterruptsWhatIsOpenAndSendsNothingMore) {
  LoadDriver driver = Closed(3, 100);
  std::future<Records> done = Start(driver);
  engine_->Request(2);
  driver.Stop();
  const Records records = done.get();
  EXPECT_GE(records.size(), 3);
  EXPECT_LE(records.size(), 4);  // one may have been on its way
  for (const RequestRecord& record : records) {
    EXPECT_EQ(OutcomeOf(record), Outcome::kInterrupted) << record.status;
  }
}

TEST_F(BenchClientTest, ATimeoutEndsARequest) {
  LoadLimits limits;
  limits.timeout = 0.05;
  LoadDriver driver(client_, source_, GivenArrivals({0}), limits);
  std::future<Records> done = Start(driver);
  engine_->Request(0);
  EXPECT_EQ(done.get()[0].status.code(), absl::StatusCode::kDeadlineExceeded);
  engine_->Fail("0", absl::DeadlineExceededError("as a real one would end it"));
}

TEST_F(BenchClientTest, AsksTheServer) {
  const auto model = client_.WaitForModel(0);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->name(), "fake");
  EXPECT_EQ(client_.Tokenize("ab").value(), (std::vector<uint32_t>{'a', 'b'}));
  engine_->SetLoad({.running = 3});
  EXPECT_EQ(client_.GetLoad()->running(), 3);
}

}  // namespace
}  // namespace hydrant::server::bench
