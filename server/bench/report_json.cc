#include <nlohmann/json.hpp>
#include <string>

#include "server/bench/report.h"

namespace hydrant::server::bench {
namespace {

using nlohmann::ordered_json;

ordered_json ToJson(const Samples& samples) {
  if (samples.empty()) return nullptr;
  return {{"count", samples.sorted().size()}, {"mean", samples.Mean()},
          {"p50", samples.Percentile(50)},    {"p90", samples.Percentile(90)},
          {"p99", samples.Percentile(99)},    {"max", samples.Max()}};
}

ordered_json ToJson(const Counts& counts) {
  return {{"sent", counts.sent},           {"completed", counts.completed},
          {"refused", counts.refused},     {"cancelled", counts.cancelled},
          {"failed", counts.failed},       {"interrupted", counts.interrupted},
          {"by_status", counts.by_status}, {"first_error", counts.first_error}};
}

ordered_json ToJson(const Summary& summary, const std::optional<SloTarget>& slo) {
  const auto output = static_cast<double>(summary.output_tokens);
  const auto prompt = static_cast<double>(summary.prompt_tokens);
  ordered_json json = {
      {"seconds", summary.seconds()},
      {"requests", ToJson(summary.counts)},
      {"requests_per_second", summary.PerSecond(static_cast<double>(summary.counts.completed))},
      {"output_tokens", summary.output_tokens},
      {"prompt_tokens", summary.prompt_tokens},
      {"output_tokens_per_second", summary.PerSecond(output)},
      {"total_tokens_per_second", summary.PerSecond(output + prompt)},
      {"ttft_seconds", ToJson(summary.ttft)},
      {"itl_seconds", ToJson(summary.itl)},
      {"tpot_seconds", ToJson(summary.tpot)},
      {"e2e_seconds", ToJson(summary.e2e)},
      {"max_send_delay_seconds", summary.max_send_delay}};
  json["slo"] = nullptr;
  if (slo) {
    const std::optional<double> share = summary.SloShare();
    json["slo"] = {
        {"limits", slo->limits.ToString()},
        {"share_asked", slo->share},
        {"share", share ? ordered_json(*share) : ordered_json(nullptr)},
        {"within", summary.within_slo},
        {"goodput_requests_per_second", summary.PerSecond(static_cast<double>(summary.within_slo))},
        {"met", share.value_or(0) >= slo->share}};
  }
  return json;
}

ordered_json ToJson(const UsageSums& usage) {
  ordered_json json = {{"prompt_tokens", usage.prompt_tokens},
                       {"completion_tokens", usage.completion_tokens},
                       {"cached_prompt_tokens", usage.cached_prompt_tokens},
                       {"evicted_tokens", usage.evicted_tokens},
                       {"preemptions", usage.preemptions},
                       {"queue_seconds", usage.queue_seconds},
                       {"recall", nullptr}};
  if (usage.recall_requests > 0) {
    json["recall"] = {{"requests", usage.recall_requests},
                      {"mean", usage.recall_mean},
                      {"p5_min", usage.recall_p5_min}};
  }
  return json;
}

}  // namespace

std::string ReportJson(const Report& report) {
  const Measurement& run = report.run;
  ordered_json json = {
      {"schema", "hydrant-bench/1"},    {"started", run.started}, {"command", run.command},
      {"interrupted", run.interrupted}, {"load", run.load},       {"each", run.requests}};
  json["server"] = {{"address", run.address},
                    {"version", run.model.server_version()},
                    {"model", run.model.name()},
                    {"backend", run.model.backend()},
                    {"weight_dtype", run.model.weight_dtype()},
                    {"kv_cache_dtype", run.model.kv_cache_dtype()},
                    {"kv_cache_bytes", run.model.kv_cache_bytes()}};
  json.update(ToJson(report.total, run.slo));
  json["client_cpu_seconds"] = run.client_cpu_seconds;
  json["peak"] = {{"running", report.peak.running},
                  {"waiting", report.peak.waiting},
                  {"kv_blocks", report.peak.kv_blocks},
                  {"kv_blocks_total", run.model.kv_blocks()},
                  {"kv_bytes", report.KvBytes(report.peak.kv_blocks)},
                  {"samples", run.samples.size()}};
  json["mean_running"] = report.mean_running;
  json["usage"] = ToJson(report.total.usage);
  json["steps"] = ordered_json::array();
  for (size_t i = 0; i < report.steps.size(); ++i) {
    ordered_json step = {{"begin_seconds", report.steps[i].begin}, {"level", run.steps[i].level}};
    step.update(ToJson(report.steps[i], run.slo));
    json["steps"].push_back(std::move(step));
  }
  json["series"] = {{"bin_seconds", report.bin_seconds}, {"output_tokens", report.output_tokens}};
  // Messages are the server's and may hold anything.
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace hydrant::server::bench
