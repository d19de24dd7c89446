// What a call tells a balancer when it ends (ORCA): how full this server is, and what the request
// cost. In the trailer kLoadReportTrailer, as a serialised xds.data.orca.v3.OrcaLoadReport. (Clients
// of gRPC's C core give it to their balancers and hide it from the application.)

#ifndef HYDRANT_SERVER_LOAD_REPORT_H_
#define HYDRANT_SERVER_LOAD_REPORT_H_

#include <string>

#include "engine/engine.h"

namespace hydrant::server {

inline constexpr char kLoadReportTrailer[] = "endpoint-load-metrics-bin";

//   mem_utilization, application_utilization   share of the KV blocks in use, 0 to 1
//   named_metrics                              kv_cache_usage_perc, num_requests_running,
//                                              num_requests_waiting
//   request_cost                               of a request that finished: prompt_tokens,
//                                              completion_tokens, evicted_tokens, kv_bytes,
//                                              queue_seconds, prefill_seconds, decode_seconds
std::string LoadReport(const engine::LoadStats& load, const engine::Usage* usage);

}  // namespace hydrant::server

#endif  // HYDRANT_SERVER_LOAD_REPORT_H_
