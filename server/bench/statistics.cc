#include "server/bench/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace hydrant::server::bench {
namespace {

struct LatencyValues {
  std::vector<double> ttft, itl, tpot, e2e;

  void Add(const RequestRecord& record) {
    const RequestTimes times(record);
    e2e.push_back(times.e2e);
    if (times.ttft) ttft.push_back(*times.ttft);
    if (times.tpot) tpot.push_back(*times.tpot);
    for (size_t i = 1; i < record.arrivals.size(); ++i) {
      itl.push_back(record.arrivals[i].seconds - record.arrivals[i - 1].seconds);
    }
  }
};

void Count(const RequestRecord& record, Counts& counts) {
  ++counts.sent;
  switch (OutcomeOf(record)) {
    case Outcome::kCompleted:
      ++counts.completed;
      break;
    case Outcome::kRefused:
      ++counts.refused;
      break;
    case Outcome::kCancelled:
      ++counts.cancelled;
      break;
    case Outcome::kInterrupted:
      ++counts.interrupted;
      break;
    case Outcome::kFailed:
      ++counts.failed;
      break;
  }
  const std::string name = absl::StatusCodeToString(record.status.code());
  ++counts.by_status[name];
  if (!record.status.ok()) {
    counts.first_error.emplace(name, std::string(record.status.message()));
  }
}

void Add(const v1::Usage& usage, UsageSums& sums) {
  sums.prompt_tokens += usage.prompt_tokens();
  sums.completion_tokens += usage.completion_tokens();
  sums.cached_prompt_tokens += usage.cached_prompt_tokens();
  sums.evicted_tokens += usage.evicted_tokens();
  sums.preemptions += usage.preemptions();
  sums.queue_seconds += usage.queue_seconds();
  if (!usage.has_recall() || usage.recall().steps() == 0) return;
  const double p5 = usage.recall().p5();
  sums.recall_p5_min = sums.recall_requests == 0 ? p5 : std::min(sums.recall_p5_min, p5);
  ++sums.recall_requests;
  sums.recall_mean += (usage.recall().mean() - sums.recall_mean) / sums.recall_requests;
}

}  // namespace

Samples::Samples(std::vector<double> values) : sorted_(std::move(values)) {
  std::sort(sorted_.begin(), sorted_.end());
}

double Samples::Percentile(double percent) const {
  const auto count = static_cast<double>(sorted_.size());
  // percent * count first: 99 % of 100 must not become 99.00000000000001.
  const auto rank = static_cast<size_t>(std::ceil(percent * count / 100));
  return sorted_[std::clamp<size_t>(rank, 1, sorted_.size()) - 1];
}

double Samples::Mean() const {
  return std::accumulate(sorted_.begin(), sorted_.end(), 0.0) / static_cast<double>(sorted_.size());
}

Outcome OutcomeOf(const RequestRecord& record) {
  if (record.interrupted) return Outcome::kInterrupted;
  switch (record.status.code()) {
    case absl::StatusCode::kOk:
      return Outcome::kCompleted;
    case absl::StatusCode::kCancelled:
      return Outcome::kCancelled;
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
      return record.prompt_tokens ? Outcome::kFailed : Outcome::kRefused;
    default:
      return Outcome::kFailed;
  }
}

std::optional<double> Summary::SloShare() const {
  const int64_t judged = counts.sent - counts.interrupted;
  if (judged == 0) return std::nullopt;
  return static_cast<double>(within_slo) / static_cast<double>(judged);
}

Summary Summarize(const std::vector<RequestRecord>& records, const std::optional<Slo>& slo,
                  double begin, double end) {
  Summary summary;
  summary.begin = begin;
  summary.end = end;
  LatencyValues latencies;
  for (const RequestRecord& record : records) {
    for (const TokenArrival& arrival : record.arrivals) {
      if (arrival.seconds >= begin && arrival.seconds < end) {
        summary.output_tokens += arrival.tokens;
      }
    }
    if (record.scheduled < begin || record.scheduled >= end) continue;
    Count(record, summary.counts);
    summary.max_send_delay = std::max(summary.max_send_delay, record.sent - record.scheduled);
    if (!record.arrivals.empty()) summary.prompt_tokens += record.prompt_tokens.value_or(0);
    if (!record.status.ok()) continue;
    latencies.Add(record);
    if (slo && slo->IsMetBy(record)) ++summary.within_slo;
    if (record.usage) Add(*record.usage, summary.usage);
  }
  summary.ttft = Samples(std::move(latencies.ttft));
  summary.itl = Samples(std::move(latencies.itl));
  summary.tpot = Samples(std::move(latencies.tpot));
  summary.e2e = Samples(std::move(latencies.e2e));
  return summary;
}

}  // namespace hydrant::server::bench
