// Flags of `serve` that say how it behaves when there is too much to do, or something is wrong.
// Includes CLI11.

#ifndef HYDRANT_SERVER_OPERATION_FLAGS_H_
#define HYDRANT_SERVER_OPERATION_FLAGS_H_

#include <CLI/CLI.hpp>

#include "engine/engine.h"
#include "server/serve_options.h"
#include "server/tenants.h"

namespace hydrant::server {

// How much may wait, how long, and in which order.
void AddQueueFlags(CLI::App& app, engine::EngineOptions& options);

void AddTenantFlags(CLI::App& app, TenantOptions& tenants);
// Throws CLI::ValidationError when they do not go together.
void CheckTenantFlags(const TenantOptions& tenants);

// Throws CLI::ValidationError when it is too small to be of use.
void CheckStreamBuffer(const GenerationOptions& options);

// When it ends, what it keeps for clients, and what it tells of itself.
void AddLifeFlags(CLI::App& app, ServeOptions& options);

}  // namespace hydrant::server

#endif  // HYDRANT_SERVER_OPERATION_FLAGS_H_
