#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/bench/nice_step.h"
#include "server/bench/report.h"
#include "server/bench/svg.h"

namespace hydrant::server::bench {
namespace {

constexpr double kWidth = 960, kHeight = 760;
constexpr double kMargin = 56;
constexpr int kCurvePoints = 200;
constexpr const char* kDark = "stroke:#222;stroke-width:1.6";
constexpr const char* kDashed = "stroke:#222;stroke-width:1.2;stroke-dasharray:5 4";
constexpr const char* kThin = "stroke:#bbb;stroke-dasharray:2 3";
constexpr const char* kFaint = "fill:#666";

std::string Milliseconds(double ms) {
  return absl::StrFormat("%.*f", ms >= 100 ? 0 : ms >= 10 ? 1 : 2, ms);
}

// The share of samples, in percent, up to each time, with its percentiles marked. The axis ends a
// little after the 99th percentile, so that one straggler does not squeeze all the others.
void DrawDistribution(Svg& svg, double left, double top, const char* title,
                      const Samples& samples) {
  constexpr double kPanelWidth = 248, kPanelHeight = 190;
  if (samples.empty()) {
    svg.Text(left, top - 10, title, Svg::Anchor::kStart, "font-weight:600");
    svg.Text(left, top + 20, "no samples", Svg::Anchor::kStart, kFaint);
    return;
  }
  const double p99 = samples.Percentile(99);
  const double x_max = 1e3 * std::max(std::min(samples.Max(), 1.25 * p99) * 1.05, 1e-6);
  const Panel panel{left, top, kPanelWidth, kPanelHeight, x_max, 100};
  panel.Draw(svg, title, "ms");
  Points curve = {{0, 0}};
  for (int i = 0; i <= kCurvePoints; ++i) {
    const double percent = std::max(100.0 * i / kCurvePoints, 1e-9);
    const double ms = 1e3 * samples.Percentile(percent);
    if (ms > x_max) break;
    curve.emplace_back(ms, curve.back().second);
    curve.emplace_back(ms, percent);
  }
  svg.Polyline(panel.Map(curve), kDark);
  double x = left;
  for (const auto& [percent, fill] :
       {std::pair{50, "fill:#fff"}, std::pair{90, "fill:#999"}, std::pair{99, "fill:#222"}}) {
    const double ms = 1e3 * samples.Percentile(percent);
    const std::string style = absl::StrCat(fill, ";stroke:#222;stroke-width:1.4");
    svg.Circle(panel.X(ms), panel.Y(percent), 3.6, style);
    svg.Circle(x + 4, top + kPanelHeight + 38, 3.6, style);
    svg.Text(x + 13, top + kPanelHeight + 42, absl::StrFormat("p%d %s", percent, Milliseconds(ms)));
    x += 88;
  }
}

// The steps of a ramp, with their levels.
void DrawSteps(Svg& svg, const Panel& panel, const Report& report) {
  if (report.steps.empty()) return;
  for (const LoadStep& step : report.run.steps) {
    const double x = panel.X(step.begin);
    svg.Line(x, panel.top, x, panel.top + panel.height, kThin);
    svg.Text(x + 3, panel.top + 10, absl::StrFormat("%.4g", step.level), Svg::Anchor::kStart,
             "fill:#666;font-size:10px");
  }
}

double AxisEnd(double highest) {
  const double step = NiceStep(std::max(highest, 1.0) / 4);
  double end = step;
  while (end < highest) end += step;
  return end;
}

void DrawThroughput(Svg& svg, double top, const Report& report) {
  const auto& bins = report.output_tokens;
  const double highest =
      static_cast<double>(*std::max_element(bins.begin(), bins.end())) / report.bin_seconds;
  const Panel panel{
      kMargin, top, kWidth - 2 * kMargin, 130, std::max(report.total.end, 1e-3), AxisEnd(highest)};
  panel.Draw(svg, "Output tokens a second", "s");
  DrawSteps(svg, panel, report);
  Points line = {{0, 0}};
  for (size_t i = 0; i < bins.size(); ++i) {
    const double begin = static_cast<double>(i) * report.bin_seconds;
    const double end = std::min(begin + report.bin_seconds, report.total.end);
    if (end <= begin) break;
    // The last bin is cut short by the end of the run.
    const double rate = static_cast<double>(bins[i]) / std::max(end - begin, report.bin_seconds);
    line.emplace_back(begin, rate);
    line.emplace_back(end, rate);
  }
  svg.Polyline(panel.Map(line), kDark);
}

void DrawLoad(Svg& svg, double top, const Report& report) {
  const Panel panel{kMargin,
                    top,
                    kWidth - 2 * kMargin,
                    90,
                    std::max(report.total.end, 1e-3),
                    AxisEnd(std::max(report.peak.running, report.peak.waiting))};
  panel.Draw(svg, "Requests at the server", "s");
  svg.Line(kMargin + 170, top - 14, kMargin + 194, top - 14, kDark);
  svg.Text(kMargin + 200, top - 10, "running", Svg::Anchor::kStart, kFaint);
  svg.Line(kMargin + 264, top - 14, kMargin + 288, top - 14, kDashed);
  svg.Text(kMargin + 294, top - 10, "waiting", Svg::Anchor::kStart, kFaint);
  Points running, waiting;
  for (const LoadSample& sample : report.run.samples) {
    const double seconds = std::clamp(sample.seconds, 0.0, report.total.end);
    running.emplace_back(seconds, sample.running);
    waiting.emplace_back(seconds, sample.waiting);
  }
  svg.Polyline(panel.Map(waiting), kDashed);
  svg.Polyline(panel.Map(running), kDark);
}

}  // namespace

std::string ReportSvg(const Report& report) {
  const Summary& total = report.total;
  const v1::GetModelInfoResponse& model = report.run.model;
  Svg svg(kWidth, kHeight);
  svg.Text(kMargin, 40,
           absl::StrFormat("%.1f output tokens/s", total.PerSecond(total.output_tokens)),
           Svg::Anchor::kStart, "font-size:22px;font-weight:600;fill:#111");
  svg.Text(kMargin, 62,
           absl::StrCat(model.name(), ", ", model.backend(), ", ", model.weight_dtype(),
                        " weights, ", model.kv_cache_dtype(), " KV cache  ·  ", report.run.load),
           Svg::Anchor::kStart, kFaint);
  std::string line = absl::StrCat(report.run.requests, "  ·  ", total.counts.completed, " of ",
                                  total.counts.sent, " requests completed");
  if (report.run.slo) {
    absl::StrAppendFormat(&line, "  ·  SLO %s %s", report.run.slo->limits.ToString(),
                          report.SloMet() ? "met" : "FAILED");
  }
  svg.Text(kMargin, 80, line, Svg::Anchor::kStart, kFaint);
  DrawDistribution(svg, kMargin, 130, "Time to first token, % of requests", total.ttft);
  DrawDistribution(svg, kMargin + 300, 130, "Between tokens, % of gaps", total.itl);
  DrawDistribution(svg, kMargin + 600, 130, "End to end, % of requests", total.e2e);
  DrawThroughput(svg, 428, report);
  DrawLoad(svg, 628, report);
  return std::move(svg).Finish();
}

}  // namespace hydrant::server::bench
