// What an operator decides about Generate calls.

#ifndef HYDRANT_SERVER_GENERATION_OPTIONS_H_
#define HYDRANT_SERVER_GENERATION_OPTIONS_H_

#include <cstdint>

#include "server/log.h"
#include "server/tenants.h"

namespace hydrant::server {

struct GenerationOptions {
  TenantOptions tenants;
  // Of an answer that its client does not read; beyond, the stream ends.
  int64_t stream_buffer_bytes = 16'000'000;
  const Log* log = nullptr;  // null: requests are not logged, and the rest is in text
  bool log_requests = true;
  bool log_prompts = false;
};

}  // namespace hydrant::server

#endif  // HYDRANT_SERVER_GENERATION_OPTIONS_H_
