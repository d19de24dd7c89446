#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "server/bench/slo.h"
#include "server/bench/statistics.h"

namespace hydrant::server::bench {
namespace {

RequestRecord Completed(double scheduled, std::vector<TokenArrival> arrivals, double ended) {
  RequestRecord record;
  record.scheduled = record.sent = scheduled;
  record.prompt_tokens = 10;
  record.arrivals = std::move(arrivals);
  record.ended = ended;
  record.usage.emplace();
  return record;
}

RequestRecord Ended(absl::Status status) {
  RequestRecord record;
  record.ended = 1;
  record.status = std::move(status);
  return record;
}

TEST(SamplesTest, PercentilesAreNearestRanks) {
  std::vector<double> values(100);
  std::iota(values.rbegin(), values.rend(), 1);  // 100 … 1
  const Samples samples(values);
  EXPECT_EQ(samples.Percentile(50), 50);
  EXPECT_EQ(samples.Percentile(90), 90);
  EXPECT_EQ(samples.Percentile(99), 99);
  EXPECT_EQ(samples.Percentile(99.1), 100);
  EXPECT_EQ(samples.Percentile(100), 100);
  EXPECT_EQ(samples.Percentile(1e-9), 1);
  EXPECT_EQ(samples.Mean(), 50.5);
  EXPECT_EQ(samples.Max(), 100);
}

TEST(SamplesTest, OfOneValueAreThatValue) {
  const Samples samples({7});
  for (const double percent : {1.0, 50.0, 99.0, 100.0}) EXPECT_EQ(samples.Percentile(percent), 7);
}

TEST(RequestTimesTest, CountFromWhenTheRequestWasDue) {
  RequestRecord record = Completed(1, {{3, 1}, {4, 1}, {6, 3}}, 7);
  record.sent = 2;
  const RequestTimes times(record);
  EXPECT_EQ(times.ttft, 2);
  EXPECT_EQ(times.longest_gap, 2);
  EXPECT_EQ(times.tpot, 0.75);  // 4 tokens in 3 s after the first message
  EXPECT_EQ(times.e2e, 6);
}

TEST(RequestTimesTest, OneMessageHasNoGap) {
  const RequestTimes times(Completed(0, {{1, 5}}, 2));
  EXPECT_EQ(times.ttft, 1);
  EXPECT_FALSE(times.tpot);
  EXPECT_FALSE(times.longest_gap);
  EXPECT_FALSE(RequestTimes(Completed(0, {}, 2)).ttft);
}

TEST(SloTest, ReadsAndWritesLimits) {
  const auto slo = Slo::Parse("ttft=200ms,itl=50ms,e2e=1.5s");
  ASSERT_TRUE(slo.ok()) << slo.status();
  EXPECT_DOUBLE_EQ(*slo->ttft, 0.2);
  EXPECT_DOUBLE_EQ(*slo->itl, 0.05);
  EXPECT_FALSE(slo->tpot);
  EXPECT_EQ(slo->e2e, 1.5);
  EXPECT_EQ(slo->ToString(), "ttft=200ms,itl=50ms,e2e=1.5s");
}

TEST(SloTest, RefusesOtherText) {
  for (const char* text : {"", "ttft", "ttft=", "ttft=0", "ttft=-1s", "tbt=1s", "ttft=1s,",
                           "ttft=1s,ttft=2s", "ttft=1s itl=2s"}) {
    EXPECT_FALSE(Slo::Parse(text).ok()) << text;
  }
}

TEST(SloTest, EachLimitHolds) {
  const RequestRecord record = Completed(0, {{1, 1}, {2, 1}, {4, 1}}, 5);
  for (const char* met : {"ttft=1s", "itl=2s", "tpot=1.5s", "e2e=5s", "ttft=1s,itl=2s,e2e=5s"}) {
    EXPECT_TRUE(Slo::Parse(met)->IsMetBy(record)) << met;
  }
  for (const char* missed : {"ttft=999ms", "itl=1.9s", "tpot=1.4s", "e2e=4.9s", "ttft=1s,itl=1s"}) {
    EXPECT_FALSE(Slo::Parse(missed)->IsMetBy(record)) << missed;
  }
  EXPECT_FALSE(Slo::Parse("e2e=1h")->IsMetBy(Ended(absl::UnavailableError(""))));
  EXPECT_FALSE(Slo::Parse("ttft=1h")->IsMetBy(Completed(0, {}, 1)));
  EXPECT_TRUE(Slo::Parse("itl=1us")->IsMetBy(Completed(0, {{1, 1}}, 1)));
}

TEST(OutcomeTest, TellsRefusalsFromFailures) {
  EXPECT_EQ(OutcomeOf(Completed(0, {}, 1)), Outcome::kCompleted);
  EXPECT_EQ(OutcomeOf(Ended(absl::ResourceExhaustedError(""))), Outcome::kRefused);
  EXPECT_EQ(OutcomeOf(Ended(absl::InvalidArgumentError(""))), Outcome::kRefused);
  EXPECT_EQ(OutcomeOf(Ended(absl::CancelledError(""))), Outcome::kCancelled);
  EXPECT_EQ(OutcomeOf(Ended(absl::UnavailableError(""))), Outcome::kFailed);
  EXPECT_EQ(OutcomeOf(Ended(absl::DeadlineExceededError(""))), Outcome::kFailed);
  RequestRecord begun = Ended(absl::ResourceExhaustedError(""));
  begun.prompt_tokens = 3;
  EXPECT_EQ(OutcomeOf(begun), Outcome::kFailed);
  RequestRecord interrupted = Ended(absl::CancelledError(""));
  interrupted.interrupted = true;
  EXPECT_EQ(OutcomeOf(interrupted), Outcome::kInterrupted);
}

TEST(SummarizeTest, CountsEveryRequest) {
  RequestRecord interrupted = Ended(absl::CancelledError("mine"));
  interrupted.interrupted = true;
  interrupted.arrivals = {{0.5, 2}};
  const std::vector<RequestRecord> records = {Completed(0, {{1, 1}, {2, 1}}, 2),
                                              Ended(absl::ResourceExhaustedError("full")),
                                              Ended(absl::ResourceExhaustedError("still full")),
                                              Ended(absl::CancelledError("theirs")),
                                              Ended(absl::UnavailableError("gone")),
                                              interrupted};
  const Summary summary = Summarize(records, Slo::Parse("ttft=1s").value(), 0, 4);
  EXPECT_EQ(summary.counts.sent, 6);
  EXPECT_EQ(summary.counts.completed, 1);
  EXPECT_EQ(summary.counts.refused, 2);
  EXPECT_EQ(summary.counts.cancelled, 1);
  EXPECT_EQ(summary.counts.failed, 1);
  EXPECT_EQ(summary.counts.interrupted, 1);
  EXPECT_EQ(summary.counts.by_status.at("RESOURCE_EXHAUSTED"), 2);
  EXPECT_EQ(summary.counts.first_error.at("RESOURCE_EXHAUSTED"), "full");
  EXPECT_FALSE(summary.counts.first_error.contains("OK"));
  EXPECT_EQ(summary.output_tokens, 4);
  EXPECT_EQ(summary.PerSecond(summary.output_tokens), 1);
  EXPECT_EQ(summary.within_slo, 1);
  EXPECT_EQ(summary.SloShare(), 0.2);  // not of the interrupted one
}

TEST(SummarizeTest, LatenciesAreThoseOfCompletedRequests) {
  RequestRecord broken = Completed(0, {{9, 1}, {19, 1}}, 20);
  broken.status = absl::InternalError("");
  const Summary summary =
      Summarize({Completed(0, {{1, 1}, {2, 1}, {4, 1}}, 5), broken}, std::nullopt, 0, 20);
  EXPECT_EQ(summary.ttft.sorted(), std::vector<double>{1});
  EXPECT_EQ(summary.itl.sorted(), (std::vector<double>{1, 2}));
  EXPECT_EQ(summary.tpot.sorted(), std::vector<double>{1.5});
  EXPECT_EQ(summary.e2e.sorted(), std::vector<double>{5});
  EXPECT_EQ(summary.output_tokens, 5);
}

TEST(SummarizeTest, APartTakesRequestsDueAndTokensArrivedInIt) {
  RequestRecord late = Completed(1, {{12, 1}}, 13);
  late.sent = 1.5;
  const std::vector<RequestRecord> records = {late, Completed(11, {{12, 1}}, 13)};
  const Summary first = Summarize(records, std::nullopt, 0, 10);
  EXPECT_EQ(first.counts.sent, 1);
  EXPECT_EQ(first.output_tokens, 0);
  EXPECT_EQ(first.max_send_delay, 0.5);
  const Summary second = Summarize(records, std::nullopt, 10, 20);
  EXPECT_EQ(second.counts.sent, 1);
  EXPECT_EQ(second.output_tokens, 2);
  EXPECT_EQ(second.max_send_delay, 0);
}

TEST(SummarizeTest, SumsUsageAndRecall) {
  RequestRecord plain = Completed(0, {}, 1), audited = plain, other = plain;
  plain.usage->set_evicted_tokens(5);
  plain.usage->set_preemptions(2);
  audited.usage->set_evicted_tokens(7);
  audited.usage->mutable_recall()->set_mean(0.9);
  audited.usage->mutable_recall()->set_p5(0.5);
  audited.usage->mutable_recall()->set_steps(4);
  other.usage->mutable_recall()->set_mean(0.7);
  other.usage->mutable_recall()->set_p5(0.6);
  other.usage->mutable_recall()->set_steps(4);
  const UsageSums usage = Summarize({plain, audited, other}, std::nullopt, 0, 2).usage;
  EXPECT_EQ(usage.evicted_tokens, 12);
  EXPECT_EQ(usage.preemptions, 2);
  EXPECT_EQ(usage.recall_requests, 2);
  EXPECT_DOUBLE_EQ(usage.recall_mean, 0.8);
  EXPECT_EQ(usage.recall_p5_min, 0.5);
}

TEST(SummarizeTest, OfNothingIsNothing) {
  const Summary summary = Summarize({}, Slo::Parse("e2e=1s").value(), 0, 0);
  EXPECT_EQ(summary.counts.sent, 0);
  EXPECT_TRUE(summary.ttft.empty());
  EXPECT_EQ(summary.PerSecond(5), 0);
  EXPECT_FALSE(summary.SloShare());
}

}  // namespace
}  // namespace hydrant::server::bench
