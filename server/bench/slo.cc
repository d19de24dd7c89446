#include "server/bench/slo.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/duration_text.h"

namespace hydrant::server::bench {
namespace {

constexpr std::array<std::pair<const char*, std::optional<double> Slo::*>, 4> kLimits = {
    {{"ttft", &Slo::ttft}, {"itl", &Slo::itl}, {"tpot", &Slo::tpot}, {"e2e", &Slo::e2e}}};

// What has no such time (an answer of one token has no gap) is within any limit.
bool Within(std::optional<double> time, std::optional<double> limit) {
  return !limit || !time || *time <= *limit;
}

}  // namespace

RequestTimes::RequestTimes(const RequestRecord& record) : e2e(record.ended - record.scheduled) {
  const std::vector<TokenArrival>& arrivals = record.arrivals;
  if (arrivals.empty()) return;
  ttft = arrivals.front().seconds - record.scheduled;
  int64_t later_tokens = 0;
  for (size_t i = 1; i < arrivals.size(); ++i) {
    later_tokens += arrivals[i].tokens;
    const double gap = arrivals[i].seconds - arrivals[i - 1].seconds;
    longest_gap = std::max(longest_gap.value_or(0), gap);
  }
  if (later_tokens > 0) {
    tpot = (arrivals.back().seconds - arrivals.front().seconds) / later_tokens;
  }
}

absl::StatusOr<Slo> Slo::Parse(std::string_view text) {
  Slo slo;
  for (const std::string& part :
       std::vector<std::string>(absl::StrSplit(absl::string_view(text.data(), text.size()), ','))) {
    const size_t equals = part.find('=');
    const std::string name = part.substr(0, equals);
    const auto limit = std::find_if(kLimits.begin(), kLimits.end(),
                                    [&](const auto& known) { return known.first == name; });
    const std::optional<double> seconds =
        equals == std::string::npos ? std::nullopt : ParseDuration(part.substr(equals + 1));
    if (limit == kLimits.end() || !seconds || *seconds <= 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", part,
                       "' is not ttft=, itl=, tpot= or e2e= with a time above 0, such as "
                       "ttft=200ms"));
    }
    std::optional<double>& target = slo.*limit->second;
    if (target) return absl::InvalidArgumentError(absl::StrCat(name, " is given twice"));
    target = seconds;
  }
  return slo;
}

std::string Slo::ToString() const {
  std::string text;
  for (const auto& [name, limit] : kLimits) {
    if (!(this->*limit)) continue;
    absl::StrAppend(&text, text.empty() ? "" : ",", name, "=", FormatDuration(*(this->*limit)));
  }
  return text;
}

bool Slo::IsMetBy(const RequestRecord& record) const {
  if (!record.status.ok()) return false;
  const RequestTimes times(record);
  // An answer without a token never had its first one.
  if (ttft && !times.ttft) return false;
  return Within(times.ttft, ttft) && Within(times.longest_gap, itl) && Within(times.tpot, tpot) &&
         Within(times.e2e, e2e);
}

}  // namespace hydrant::server::bench
