#include "server/bench/report.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "server/bench/nice_step.h"

namespace hydrant::server::bench {
namespace {

constexpr double kMaxBins = 80;
constexpr double kMinBinSeconds = 0.1;

}  // namespace

Report::Report(Measurement measurement) : run(std::move(measurement)) {
  double end = 0;
  for (const RequestRecord& record : run.records) end = std::max(end, record.ended);
  const std::optional<Slo> slo = run.slo ? std::optional(run.slo->limits) : std::nullopt;
  end = std::nextafter(end, std::numeric_limits<double>::infinity());  // what came last is in it
  total = Summarize(run.records, slo, 0, end);
  for (size_t i = 0; run.steps.size() > 1 && i < run.steps.size(); ++i) {
    const double next = i + 1 < run.steps.size() ? run.steps[i + 1].begin : run.sending_seconds;
    steps.push_back(Summarize(run.records, slo, run.steps[i].begin, next));
  }
  for (const LoadSample& sample : run.samples) {
    peak.running = std::max(peak.running, sample.running);
    peak.waiting = std::max(peak.waiting, sample.waiting);
    peak.kv_blocks = std::max(peak.kv_blocks, sample.kv_blocks);
    mean_running += sample.running / static_cast<double>(run.samples.size());
  }
  bin_seconds = NiceStep(std::max(end / kMaxBins, kMinBinSeconds));
  output_tokens.resize(static_cast<size_t>(end / bin_seconds) + 1);
  for (const RequestRecord& record : run.records) {
    for (const TokenArrival& arrival : record.arrivals) {
      output_tokens[static_cast<size_t>(arrival.seconds / bin_seconds)] += arrival.tokens;
    }
  }
}

bool Report::SloMet() const { return !run.slo || total.SloShare().value_or(0) >= run.slo->share; }

int64_t Report::KvBytes(int32_t blocks) const {
  return int64_t{blocks} * run.model.block_slots() * run.model.kv_bytes_per_token();
}

}  // namespace hydrant::server::bench
