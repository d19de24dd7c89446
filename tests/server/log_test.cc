#include "server/log.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "server/library_log.h"
#include "server/request_log.h"

namespace hydrant::server {
namespace {

const LogFields kFields = {
    {"id", std::string("a b\n\"c\"")}, {"n", int64_t{3}}, {"x", 0.5}, {"yes", true}};

TEST(LogTest, JsonIsAnObjectALine) {
  const std::string line =
      FormatLogLine(LogFormat::kJson, LogLevel::kError, 1.5, "it\nis", kFields);
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  const auto json = nlohmann::json::parse(line);
  EXPECT_EQ(json.at("time"), "1970-01-01T00:00:01.500Z");
  EXPECT_EQ(json.at("level"), "error");
  EXPECT_EQ(json.at("message"), "it\nis");
  EXPECT_EQ(json.at("id"), "a b\n\"c\"");
  EXPECT_EQ(json.at("n"), 3);
  EXPECT_EQ(json.at("x"), 0.5);
  EXPECT_EQ(json.at("yes"), true);
}

TEST(LogTest, TextQuotesWhatCouldMislead) {
  EXPECT_EQ(FormatLogLine(LogFormat::kText, LogLevel::kInfo, 0, "mess\nage", kFields),
            "hydrant: mess age id=\"a b\\n\\\"c\\\"\" n=3 x=0.5 yes=true\n");
  EXPECT_EQ(
      FormatLogLine(LogFormat::kText, LogLevel::kInfo, 0, "m", {{"id", std::string("plain-1")}}),
      "hydrant: m id=plain-1\n");
}

TEST(LogTest, BytesThatAreNoTextDoNoHarm) {
  const LogFields fields = {{"tenant", std::string("\xff\xfe\x00", 3)}};
  for (const LogFormat format : {LogFormat::kText, LogFormat::kJson}) {
    const std::string line = FormatLogLine(format, LogLevel::kInfo, 0, "m", fields);
    EXPECT_NE(line.find("\\u0000"), std::string::npos) << line;
    EXPECT_EQ(line.find('\xff'), std::string::npos) << line;
  }
}

TEST(LibraryLogTest, ItsLinesAreOfTheServersForm) {
  SetLibraryLog(LogFormat::kJson);
  gpr_set_log_verbosity(GPR_LOG_SEVERITY_ERROR);
  testing::internal::CaptureStderr();
  gpr_log("some_file.cc", 7, GPR_LOG_SEVERITY_ERROR, "it said \"%s\"\n", "no");
  const auto json = nlohmann::json::parse(testing::internal::GetCapturedStderr());
  EXPECT_EQ(json.at("level"), "info");
  EXPECT_EQ(json.at("message"), "gRPC");
  EXPECT_EQ(json.at("source"), "some_file.cc:7");
  EXPECT_EQ(json.at("text"), "it said \"no\"\n");

  testing::internal::CaptureStderr();
  GOOGLE_LOG(ERROR) << "no UTF-8";
  const auto protobuf = nlohmann::json::parse(testing::internal::GetCapturedStderr());
  EXPECT_EQ(protobuf.at("message"), "Protobuf");
  EXPECT_EQ(protobuf.at("text"), "no UTF-8");
}

TEST(RequestLogTest, TellsWhatBecameOfARequest) {
  RequestRecord record;
  record.request_id = "r1";
  record.tenant = "t";
  record.finished = engine::Finished{};
  record.completion_tokens = 7;
  const std::string good =
      FormatLogLine(LogFormat::kText, LogLevel::kInfo, 0, "request", RequestFields(record));
  for (const char* part :
       {"request_id=r1", "tenant=t", "status=OK", "finish_reason=STOP", "completion_tokens=7"}) {
    EXPECT_NE(good.find(part), std::string::npos) << part << " in " << good;
  }
  EXPECT_EQ(good.find("prompt="), std::string::npos);

  record.finished.reset();
  record.status = absl::CancelledError("gone");
  record.prompt = "a secret";
  const std::string bad =
      FormatLogLine(LogFormat::kText, LogLevel::kInfo, 0, "request", RequestFields(record));
  for (const char* part :
       {"status=CANCELLED", "reason=CANCELLED", "error=gone", "prompt=\"a secret\""}) {
    EXPECT_NE(bad.find(part), std::string::npos) << part << " in " << bad;
  }
}

TEST(RequestLogTest, PromptsOfEveryKind) {
  engine::GenerateRequest request;
  request.input = "plain";
  EXPECT_EQ(PromptText(request), "plain");
  request.input = std::vector<int32_t>{1, 2};
  EXPECT_EQ(PromptText(request), "[1,2]");
  engine::chat::Conversation chat;
  chat.messages.push_back({"user", "Hi"});
  request.input = chat;
  EXPECT_EQ(PromptText(request), R"([{"role":"user","content":"Hi"}])");
}

}  // namespace
}  // namespace hydrant::server
