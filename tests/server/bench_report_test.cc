#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "server/bench/report.h"
#include "server/bench/svg.h"

namespace hydrant::server::bench {
namespace {

RequestRecord Completed(double scheduled, double first, double last) {
  RequestRecord record;
  record.scheduled = record.sent = scheduled;
  record.prompt_tokens = 4;
  record.arrivals = {{first, 1}, {last, 1}};
  record.ended = last;
  record.usage.emplace();
  return record;
}

Measurement TwoSeconds() {
  Measurement run;
  run.model.set_block_slots(16);
  run.model.set_kv_bytes_per_token(100);
  run.model.set_kv_blocks(50);
  run.steps = MakeSteps(1, 2, 2, 2);
  run.sending_seconds = 2;
  run.records = {Completed(0, 0.5, 1), Completed(1, 1.5, 2)};
  run.samples = {{0.5, 1, 0, 3}, {1.5, 2, 1, 2}};
  return run;
}

TEST(ReportTest, PutsSamplesAndStepsTogether) {
  const Report report(TwoSeconds());
  EXPECT_EQ(report.peak.running, 2);
  EXPECT_EQ(report.peak.waiting, 1);
  EXPECT_EQ(report.peak.kv_blocks, 3);
  EXPECT_EQ(report.mean_running, 1.5);
  EXPECT_EQ(report.KvBytes(3), 4800);
  ASSERT_EQ(report.steps.size(), 2);
  EXPECT_EQ(report.steps[0].counts.sent, 1);
  EXPECT_EQ(report.steps[1].counts.sent, 1);
  EXPECT_EQ(report.total.output_tokens, 4);
  int64_t tokens = 0;
  for (const int64_t bin : report.output_tokens) tokens += bin;
  EXPECT_EQ(tokens, 4);
}

TEST(ReportTest, AnSloIsMetByItsShare) {
  Measurement run = TwoSeconds();
  EXPECT_TRUE(Report(run).SloMet());  // there is none
  run.records.push_back(Completed(0, 3, 4));
  run.slo = SloTarget{Slo::Parse("ttft=1s").value(), 0.5};
  EXPECT_TRUE(Report(run).SloMet());
  run.slo->share = 0.9;
  EXPECT_FALSE(Report(run).SloMet());
  run.records.clear();
  EXPECT_FALSE(Report(run).SloMet());
}

TEST(ReportTest, JsonHoldsTheFigures) {
  Measurement run = TwoSeconds();
  run.records.front().status = absl::InternalError("not UTF-8: \xFF");
  run.slo = SloTarget{Slo::Parse("ttft=1s").value(), 0.5};
  const auto json = nlohmann::json::parse(ReportJson(Report(run)));
  EXPECT_EQ(json["schema"], "hydrant-bench/1");
  EXPECT_EQ(json["requests"]["sent"], 2);
  EXPECT_EQ(json["requests"]["failed"], 1);
  EXPECT_DOUBLE_EQ(json["output_tokens_per_second"].get<double>(), 2);
  EXPECT_EQ(json["ttft_seconds"]["p50"], 0.5);
  EXPECT_EQ(json["slo"]["within"], 1);
  EXPECT_EQ(json["slo"]["met"], true);
  EXPECT_EQ(json["steps"].size(), 2);
  EXPECT_EQ(json["steps"][1]["level"], 2);
}

TEST(ReportTest, OfNothingIsWrittenToo) {
  const Report report{Measurement()};
  EXPECT_NE(ReportText(report).find("0 sent"), std::string::npos);
  EXPECT_TRUE(nlohmann::json::parse(ReportJson(report))["ttft_seconds"].is_null());
  EXPECT_NE(ReportSvg(report).find("no samples"), std::string::npos);
}

TEST(SvgTest, HoldsAnyText) {
  Svg svg(10, 10);
  svg.Text(0, 0, "<a & b>\n\x01\xFF");
  const std::string text = std::move(svg).Finish();
  EXPECT_NE(text.find("&lt;a &amp; b&gt;  \xEF\xBF\xBD<"), std::string::npos) << text;
}

}  // namespace
}  // namespace hydrant::server::bench
