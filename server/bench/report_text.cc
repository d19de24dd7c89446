#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/bench/report.h"
#include "server/byte_size.h"

namespace hydrant::server::bench {
namespace {

// 1234567 as "1,234,567".
std::string Grouped(int64_t number) {
  std::string digits = std::to_string(number);
  for (auto at = static_cast<int64_t>(digits.size()) - 3; at > 0; at -= 3) digits.insert(at, ",");
  return digits;
}

void AddRequests(const Counts& counts, std::string& text) {
  absl::StrAppend(&text, "requests   ", counts.sent, " sent, ", counts.completed, " completed");
  const auto add = [&](int64_t count, const char* what) {
    if (count > 0) absl::StrAppend(&text, ", ", count, " ", what);
  };
  add(counts.refused, "refused");
  add(counts.cancelled, "cancelled");
  add(counts.failed, "failed");
  add(counts.interrupted, "interrupted");
  absl::StrAppend(&text, "\n");
  for (const auto& [status, message] : counts.first_error) {
    absl::StrAppend(&text, "           ", counts.by_status.at(status), " × ", status, ": ", message,
                    "\n");
  }
}

void AddLatency(const char* name, const Samples& samples, std::string& text) {
  absl::StrAppendFormat(&text, "%-8s", name);
  if (samples.empty()) {
    absl::StrAppend(&text, "         none\n");
    return;
  }
  for (const double value : {samples.Mean(), samples.Percentile(50), samples.Percentile(90),
                             samples.Percentile(99), samples.Max()}) {
    absl::StrAppendFormat(&text, "%13.2f", value * 1e3);
  }
  absl::StrAppend(&text, "\n");
}

void AddUsage(const Summary& total, std::string& text) {
  const UsageSums& usage = total.usage;
  absl::StrAppend(&text, "usage      ", Grouped(usage.preemptions), " preemptions, ",
                  Grouped(usage.evicted_tokens), " tokens evicted");
  if (usage.cached_prompt_tokens > 0) {
    absl::StrAppend(&text, ", ", Grouped(usage.cached_prompt_tokens), " prompt tokens cached");
  }
  if (total.counts.completed > 0) {
    absl::StrAppendFormat(&text, ", %.1f ms queued on average",
                          1e3 * usage.queue_seconds / total.counts.completed);
  }
  absl::StrAppend(&text, "\n");
  if (usage.recall_requests > 0) {
    absl::StrAppendFormat(&text, "recall     mean %.4f, lowest 5th percentile %.4f (%d audited)\n",
                          usage.recall_mean, usage.recall_p5_min, usage.recall_requests);
  }
}

void AddSlo(const Report& report, std::string& text) {
  if (!report.run.slo) return;
  const Summary& total = report.total;
  absl::StrAppendFormat(
      &text, "SLO        %s: %s; %.2f %% of requests within (%.6g %% asked), goodput %.2f/s\n",
      report.run.slo->limits.ToString(), report.SloMet() ? "met" : "FAILED",
      100 * total.SloShare().value_or(0), 100 * report.run.slo->share,
      total.PerSecond(static_cast<double>(total.within_slo)));
}

void AddSteps(const Report& report, std::string& text) {
  if (report.steps.empty()) return;
  absl::StrAppend(&text, "\n   level     from s     sent  completed  tokens/s   TTFT p50",
                  "   TTFT p99    ITL p50    ITL p99", report.run.slo ? "  in SLO" : "", "\n");
  const auto add = [&](const Samples& samples, double percent) {
    if (samples.empty()) {
      absl::StrAppendFormat(&text, "%11s", "-");
    } else {
      absl::StrAppendFormat(&text, "%11.2f", 1e3 * samples.Percentile(percent));
    }
  };
  for (size_t i = 0; i < report.steps.size(); ++i) {
    const Summary& step = report.steps[i];
    absl::StrAppendFormat(&text, "%8.6g %10.1f %8d %10d %9.1f", report.run.steps[i].level,
                          step.begin, step.counts.sent, step.counts.completed,
                          step.PerSecond(static_cast<double>(step.output_tokens)));
    add(step.ttft, 50);
    add(step.ttft, 99);
    add(step.itl, 50);
    add(step.itl, 99);
    if (report.run.slo) absl::StrAppendFormat(&text, "%6.1f %%", 100 * step.SloShare().value_or(0));
    absl::StrAppend(&text, "\n");
  }
}

}  // namespace

std::string ReportText(const Report& report) {
  const Summary& total = report.total;
  const v1::GetModelInfoResponse& model = report.run.model;
  std::string text;
  absl::StrAppend(&text, "server     ", report.run.address, ": ", model.name(), ", ",
                  model.backend(), ", ", model.weight_dtype(), " weights, ", model.kv_cache_dtype(),
                  " KV cache\n");
  absl::StrAppend(&text, "load       ", report.run.load, "\n");
  absl::StrAppend(&text, "each       ", report.run.requests, "\n");
  AddRequests(total.counts, text);
  absl::StrAppendFormat(&text,
                        "time       %.2f s%s; this client: %.2f cores, sent up to %.1f ms "
                        "late\n",
                        total.seconds(), report.run.interrupted ? ", interrupted" : "",
                        total.PerSecond(report.run.client_cpu_seconds), 1e3 * total.max_send_delay);
  const auto tokens = static_cast<double>(total.output_tokens);
  absl::StrAppendFormat(&text, "output     %.1f tokens/s (%s tokens)\n", total.PerSecond(tokens),
                        Grouped(total.output_tokens));
  absl::StrAppendFormat(&text, "total      %.1f tokens/s with the prompts' %s, %.2f requests/s\n",
                        total.PerSecond(tokens + static_cast<double>(total.prompt_tokens)),
                        Grouped(total.prompt_tokens),
                        total.PerSecond(static_cast<double>(total.counts.completed)));
  absl::StrAppendFormat(
      &text, "at most    %d running (%.1f on average), %d waiting, %s of %s KV blocks (%s)\n",
      report.peak.running, report.mean_running, report.peak.waiting, Grouped(report.peak.kv_blocks),
      Grouped(model.kv_blocks()), FormatByteSize(report.KvBytes(report.peak.kv_blocks)));
  AddUsage(total, text);
  AddSlo(report, text);
  absl::StrAppendFormat(&text, "\n%-8s%13s%13s%13s%13s%13s\n", "ms", "mean", "p50", "p90", "p99",
                        "max");
  AddLatency("TTFT", total.ttft, text);
  AddLatency("ITL", total.itl, text);
  AddLatency("TPOT", total.tpot, text);
  AddLatency("E2E", total.e2e, text);
  AddSteps(report, text);
  return text;
}

}  // namespace hydrant::server::bench
