#include "server/load_report.h"

#include "wire/orca_load_report.pb.h"

namespace hydrant::server {

std::string LoadReport(const engine::LoadStats& load, const engine::Usage* usage) {
  const double used = load.kv_blocks_total - load.kv_blocks_free;
  const double share = load.kv_blocks_total > 0 ? used / load.kv_blocks_total : 0;
  xds::data::orca::v3::OrcaLoadReport report;
  report.set_mem_utilization(share);
  report.set_application_utilization(share);
  auto& metrics = *report.mutable_named_metrics();
  metrics["kv_cache_usage_perc"] = share;
  metrics["num_requests_running"] = load.running;
  metrics["num_requests_waiting"] = load.waiting;
  if (usage != nullptr) {
    auto& cost = *report.mutable_request_cost();
    cost["prompt_tokens"] = usage->prompt_tokens;
    cost["completion_tokens"] = usage->completion_tokens;
    cost["evicted_tokens"] = usage->evicted_tokens;
    cost["kv_bytes"] = static_cast<double>(usage->kv_bytes);
    cost["queue_seconds"] = usage->queue_seconds;
    cost["prefill_seconds"] = usage->prefill_seconds;
    cost["decode_seconds"] = usage->decode_seconds;
  }
  return report.SerializeAsString();
}

}  // namespace hydrant::server
