#include "server/tenants.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/error_status.h"

namespace hydrant::server {
namespace {

constexpr double kBurstSeconds = 10;
constexpr size_t kFewTenants = 1024;
// A debt that takes longer than this is told as this.
constexpr double kMaxRetrySeconds = 24 * 60 * 60;

}  // namespace

Tenants::Tenants(TenantOptions options, std::function<Clock::time_point()> now)
    : options_(std::move(options)), now_(std::move(now)), sweep_at_(kFewTenants) {
  if (options_.burst_tokens == 0) {
    options_.burst_tokens = kBurstSeconds * options_.tokens_per_second;
  }
}

void Tenants::Fill(Tenant& tenant, Clock::time_point now) const {
  const double seconds = std::chrono::duration<double>(now - tenant.filled).count();
  tenant.tokens =
      std::min(options_.burst_tokens, tenant.tokens + seconds * options_.tokens_per_second);
  tenant.filled = now;
}

absl::StatusOr<std::unique_ptr<Tenants::Lease>> Tenants::Enter(std::string_view name) {
  if (name.size() > kMaxNameBytes) {
    return WithReason(
        absl::InvalidArgumentError(absl::StrCat("metadata ", options_.metadata_key, ": ",
                                                name.size(), " bytes; at most ", kMaxNameBytes)),
        "INVALID_ARGUMENT");
  }
  const Clock::time_point now = now_();
  std::lock_guard lock(mutex_);
  if (tenants_.size() >= sweep_at_) Sweep(now);
  auto it = tenants_.find(name);
  if (it == tenants_.end()) {
    it = tenants_.emplace(std::string(name), Tenant{0, options_.burst_tokens, now}).first;
  }
  Tenant& tenant = it->second;
  if (options_.max_requests > 0 && tenant.requests >= options_.max_requests) {
    return WithReason(absl::ResourceExhaustedError(absl::StrCat(
                          "this tenant has ", tenant.requests,
                          " requests in flight, tenant_max_requests is ", options_.max_requests)),
                      "TENANT_REQUESTS");
  }
  Fill(tenant, now);
  if (options_.tokens_per_second > 0 && tenant.tokens <= 0) {
    // One token is what the next request needs to find.
    const double seconds =
        std::min(kMaxRetrySeconds, (1 - tenant.tokens) / options_.tokens_per_second);
    return WithRetryDelay(
        WithReason(absl::ResourceExhaustedError(
                       absl::StrCat("this tenant has used its tokens, tenant_tokens_per_second is ",
                                    options_.tokens_per_second)),
                   "TENANT_TOKENS"),
        std::chrono::milliseconds(static_cast<int64_t>(std::ceil(seconds * 1000))));
  }
  ++tenant.requests;
  return std::make_unique<Lease>(*this, std::string(name));
}

void Tenants::Charge(const std::string& name, int64_t tokens) {
  if (options_.tokens_per_second == 0) return;
  const Clock::time_point now = now_();
  std::lock_guard lock(mutex_);
  Tenant& tenant = tenants_.at(name);
  Fill(tenant, now);
  tenant.tokens -= static_cast<double>(tokens);
}

void Tenants::Leave(const std::string& name) {
  std::lock_guard lock(mutex_);
  --tenants_.at(name).requests;
}

void Tenants::Sweep(Clock::time_point now) {
  for (auto it = tenants_.begin(); it != tenants_.end();) {
    Tenant& tenant = it->second;
    Fill(tenant, now);
    const bool as_new = tenant.requests == 0 && tenant.tokens >= options_.burst_tokens;
    it = as_new ? tenants_.erase(it) : std::next(it);
  }
  sweep_at_ = std::max(kFewTenants, 2 * tenants_.size());
}

}  // namespace hydrant::server
