// Calls over a real socket, with a fake engine behind them.

#include "server/grpc_server.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/server/grpc_server_fixture.h"

namespace hydrant::server {
namespace {

TEST_F(GrpcServerTest, StreamsPromptInfoDeltasAndFinished) {
  Load();
  const Answer answer = Call(TextRequest("a"), [&] {
    engine_->Request(0);
    engine_->Emit("a", [](engine::ResponseSink& sink) {
      engine::PromptInfo info;
      info.request_id = "a";
      info.prompt_tokens = 5;
      info.sampling.seed = 77;
      info.eviction.policy = engine::EvictionPolicyKind::kH2O;
      info.eviction.budget_tokens = 64;
      sink.OnPromptInfo(info);
      sink.OnDelta(TextDelta("Hel", {1, 2}));
      sink.OnDelta(TextDelta("lo", {3}));
    });
    engine_->Finish("a");
  });
  EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
  ASSERT_GE(answer.events.size(), 3u);
  ASSERT_TRUE(answer.events.front().has_prompt_info());
  EXPECT_EQ(answer.events.front().prompt_info().sampling().seed(), 77u);
  EXPECT_EQ(answer.events.front().prompt_info().eviction().policy(), v1::EvictionParams::H2O);
  EXPECT_EQ(answer.events.front().prompt_info().eviction().budget_tokens(), 64);
  EXPECT_EQ(answer.Text(), "Hello");
  EXPECT_TRUE(answer.Finished());
  while (metrics_.streams_active() != 0) std::this_thread::yield();  // soon after the end
}

TEST_F(GrpcServerTest, EachRefusalKeepsItsCodeMessageAndReason) {
  Load();
  const std::vector<std::pair<absl::Status, std::string>> table = {
      {absl::InvalidArgumentError("sampling.top_p: 2 is above 1"), "INVALID_PARAMETER"},
      {absl::NotFoundError("model: 'x'"), "MODEL_NOT_FOUND"},
      {absl::AlreadyExistsError("request_id: 'a'"), "REQUEST_ID_IN_FLIGHT"},
      {absl::ResourceExhaustedError("queue: 1024"), "QUEUE_FULL"},
      {absl::UnavailableError("draining"), "NOT_SERVING"},
      {absl::UnimplementedError("input.chat"), "NOT_BUILT"},
      {absl::InternalError("fault"), "ENGINE_FAULT"},
  };
  for (const auto& [refusal, reason] : table) {
    engine_->RefuseWith(refusal);
    const Answer answer = Call(TextRequest("a"));
    EXPECT_TRUE(answer.events.empty());
    EXPECT_EQ(static_cast<int>(answer.status.error_code()), static_cast<int>(refusal.code()));
    EXPECT_EQ(answer.status.error_message(), std::string(refusal.message()));
    const Details details = DetailsOf(answer.status);
    EXPECT_EQ(details.status.code(), static_cast<int>(refusal.code()));
    EXPECT_EQ(details.status.message(), answer.status.error_message());
    EXPECT_EQ(details.error_info.reason(), reason);
    EXPECT_EQ(details.error_info.domain(), "hydrant");
    EXPECT_EQ(details.retry_info.has_value(),
              absl::IsResourceExhausted(refusal) || absl::IsUnavailable(refusal));
  }
}

TEST_F(GrpcServerTest, LongMessagesAreCutAtWholeCharacters) {
  Load();
  std::string text;
  for (int i = 0; i < 4000; ++i) text += "é";
  engine_->RefuseWith(absl::InvalidArgumentError("x" + text + "\xff"));
  const Answer answer = Call(TextRequest("a"));
  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(answer.status.error_message().size(), 1 + 2 * 511 + 3u);
  EXPECT_EQ(DetailsOf(answer.status).status.message(), answer.status.error_message());
}

TEST_F(GrpcServerTest, AnErrorMidStreamEndsItWithoutFinished) {
  Load();
  const Answer answer = Call(TextRequest("a"), [&] {
    engine_->Request(0);
    engine_->Emit("a", [](engine::ResponseSink& sink) { sink.OnDelta(TextDelta("half")); });
    engine_->Fail("a", absl::InternalError("the engine failed"));
  });
  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_EQ(answer.Text(), "half");
  EXPECT_FALSE(answer.Finished());
}

TEST_F(GrpcServerTest, ASlowReaderGetsEverythingInFewerMessages) {
  Load();
  constexpr int kDeltas = 20000;
  grpc::ClientContext context;
  auto reader = stub_->Generate(&context, TextRequest("slow"));
  engine_->Request(0);
  // Nothing is read meanwhile: 20 MB do not fit in any flow-control window.
  std::string expected;
  engine_->Emit("slow", [&](engine::ResponseSink& sink) {
    for (int i = 0; i < kDeltas; ++i) {
      const std::string text = absl::StrCat(std::string(1000, 'a' + i % 26), i, ";");
      expected += text;
      sink.OnDelta(TextDelta(text, {i}));
    }
  });
  engine_->Finish("slow");
  // Another stream is not held up.
  const Answer other = Call(TextRequest("other"), [&] {
    engine_->Request(1);
    engine_->Finish("other");
  });
  EXPECT_TRUE(other.status.ok());

  const Answer answer = ReadAll(*reader);
  EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_TRUE(answer.Text() == expected);
  std::vector<uint32_t> ids;
  for (const auto& event : answer.events) {
    ids.insert(ids.end(), event.delta().token_ids().begin(), event.delta().token_ids().end());
  }
  ASSERT_EQ(ids.size(), static_cast<size_t>(kDeltas));
  EXPECT_TRUE(std::is_sorted(ids.begin(), ids.end()));
  EXPECT_LT(answer.events.size(), kDeltas / 2u);
}

TEST_F(GrpcServerTest, AClientThatCancelsIsCancelledInTheEngine) {
  Load();
  grpc::ClientContext context;
  auto reader = stub_->Generate(&context, TextRequest("gone"));
  engine_->Request(0);
  EXPECT_EQ(metrics_.streams_active(), 1);
  context.TryCancel();
  engine_->WaitForCancel("gone");
  EXPECT_EQ(ReadAll(*reader).status.error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(GrpcServerTest, AClientWhoseConnectionBreaksIsCancelledInTheEngine) {
  Load();
  grpc::ChannelArguments own_connection;
  own_connection.SetInt("grpc.use_local_subchannel_pool", 1);
  auto channel = grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", server_->port()),
                                           grpc::InsecureChannelCredentials(), own_connection);
  {
    auto stub = v1::Generation::NewStub(channel);
    grpc::ClientContext context;
    auto reader = stub->Generate(&context, TextRequest("gone"));
    engine_->Request(0);
    context.TryCancel();
  }
  channel.reset();
  engine_->WaitForCancel("gone");
}

TEST_F(GrpcServerTest, TheDeadlineIsGivenToTheEngineWhichEndsTheRequest) {
  Load();
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(300));
  const auto start = std::chrono::steady_clock::now();
  auto reader = stub_->Generate(&context, TextRequest("late"));
  const FakeEngine::Submitted submitted = engine_->Request(0);
  ASSERT_TRUE(submitted.deadline);
  EXPECT_LE(*submitted.deadline, start + std::chrono::seconds(2));
  EXPECT_GE(*submitted.deadline, start);
  EXPECT_EQ(ReadAll(*reader).status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  engine_->Fail("late", absl::DeadlineExceededError("deadline"));
  EXPECT_EQ(engine_->Cancels("late"), 0);
}

TEST_F(GrpcServerTest, NoDeadlineIsNone) {
  Load();
  Call(TextRequest("a"), [&] {
    EXPECT_FALSE(engine_->Request(0).deadline);
    engine_->Finish("a");
  });
}

TEST_F(GrpcServerTest, RequestsWithoutAnIdGetDifferentOnes) {
  Load();
  v1::GenerateRequest request;
  request.set_text("x");
  std::vector<std::string> ids;
  for (size_t i = 0; i < 2; ++i) {
    Call(request, [&] {
      ids.push_back(engine_->Request(i).request.request_id);
      engine_->Finish(ids.back());
    });
  }
  EXPECT_FALSE(ids[0].empty());
  EXPECT_NE(ids[0], ids[1]);
}

TEST_F(GrpcServerTest, MalformedRequestsNameTheProblem) {
  Load();
  const auto message_of = [&](const v1::GenerateRequest& request) {
    const Answer answer = Call(request);
    EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    return answer.status.error_message();
  };
  EXPECT_NE(message_of(TextRequest("a", "\xff\xfe")).find("not UTF-8"), std::string::npos);
  v1::GenerateRequest no_input;
  EXPECT_NE(message_of(no_input).find("input"), std::string::npos);
  EXPECT_NE(message_of(TextRequest(std::string(257, 'i'))).find("256"), std::string::npos);
}

TEST_F(GrpcServerTest, ALongPromptGoesTheSameWay) {
  Load();
  const std::string text(100000, 'p');
  const Answer answer = Call(TextRequest("long", text), [&] {
    EXPECT_EQ(std::get<std::string>(engine_->Request(0).request.input), text);
    engine_->Finish("long");
  });
  EXPECT_TRUE(answer.status.ok());
  const Answer refused = Call(TextRequest("l", text + "\xff"));
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(GrpcServerTest, AMessageBeyondTheLimitIsRefused) {
  Load();
  const Answer answer = Call(TextRequest("a", std::string(GrpcServerOptions().max_message_bytes, 'x')));
  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST_F(GrpcServerTest, AbortCancelsARequestInFlight) {
  Load();
  v1::AbortRequest abort;
  v1::AbortResponse aborted;
  abort.set_request_id("a");
  {
    grpc::ClientContext context;
    const grpc::Status status = stub_->Abort(&context, abort, &aborted);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
    EXPECT_EQ(DetailsOf(status).error_info.reason(), "REQUEST_NOT_FOUND");
  }
  const Answer answer = Call(TextRequest("a"), [&] {
    engine_->Request(0);
    grpc::ClientContext context;
    EXPECT_TRUE(stub_->Abort(&context, abort, &aborted).ok());
  });
  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::CANCELLED);
  grpc::ClientContext context;
  EXPECT_EQ(stub_->Abort(&context, {}, &aborted).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(GrpcServerTest, TokenizesTextAndChat) {
  Load();
  const auto tokenize = [&](const v1::TokenizeRequest& request, v1::TokenizeResponse& response) {
    grpc::ClientContext context;
    return stub_->Tokenize(&context, request, &response);
  };
  v1::TokenizeRequest request;
  v1::TokenizeResponse response;
  EXPECT_EQ(tokenize(request, response).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  request.set_text("AB");
  EXPECT_TRUE(tokenize(request, response).ok());
  EXPECT_EQ(std::vector<uint32_t>(response.token_ids().begin(), response.token_ids().end()),
            (std::vector<uint32_t>{256, 'A', 'B'}));
  EXPECT_EQ(response.rendered(), "AB");
  request.set_add_special_tokens(false);
  EXPECT_TRUE(tokenize(request, response).ok());
  EXPECT_EQ(response.token_ids_size(), 2);

  v1::ChatMessage& message = *request.mutable_chat()->add_messages();
  EXPECT_EQ(tokenize(request, response).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  message.set_role("user");
  message.set_content("hi");
  EXPECT_TRUE(tokenize(request, response).ok());
  EXPECT_EQ(response.rendered(), "user:hi\nassistant:");
  EXPECT_EQ(response.token_ids_size(), static_cast<int>(response.rendered().size()));
  request.set_model("another");
  EXPECT_EQ(tokenize(request, response).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(GrpcServerTest, Detokenizes) {
  Load();
  const auto detokenize = [&](std::vector<uint32_t> ids, bool skip, std::string& text) {
    grpc::ClientContext context;
    v1::DetokenizeRequest request;
    v1::DetokenizeResponse response;
    request.mutable_token_ids()->Add(ids.begin(), ids.end());
    if (!skip) request.set_skip_special_tokens(false);
    const grpc::Status status = stub_->Detokenize(&context, request, &response);
    text = response.text();
    return status.error_code();
  };
  std::string text;
  EXPECT_EQ(detokenize({256, 'o', 'k'}, true, text), grpc::StatusCode::OK);
  EXPECT_EQ(text, "ok");
  EXPECT_EQ(detokenize({256, 'o', 'k'}, false, text), grpc::StatusCode::OK);
  EXPECT_EQ(text, "<bos>ok");
  EXPECT_EQ(detokenize({257}, true, text), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(detokenize({0xffffffff}, true, text), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(GrpcServerTest, TellsModelAndLoad) {
  Load();
  engine::LoadStats load;
  load.running = 3;
  load.kv_blocks_total = 10;
  load.kv_blocks_free = 4;
  engine_->SetLoad(load);
  grpc::ClientContext info_context, load_context;
  v1::GetModelInfoResponse info;
  v1::GetLoadResponse load_response;
  EXPECT_TRUE(stub_->GetModelInfo(&info_context, {}, &info).ok());
  EXPECT_EQ(info.name(), "fake");
  EXPECT_EQ(info.default_eviction().policy(), v1::EvictionParams::H2O);
  EXPECT_EQ(info.default_eviction().budget_tokens(), 1024);
  EXPECT_TRUE(stub_->GetLoad(&load_context, {}, &load_response).ok());
  EXPECT_EQ(load_response.running(), 3);
  EXPECT_EQ(load_response.kv_blocks_free(), 4);
}

}  // namespace
}  // namespace hydrant::server
