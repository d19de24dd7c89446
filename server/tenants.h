// Who may have how much: limits for each tenant, so that none of them takes the server for itself.
//
// A tenant is the value of one metadata key of a call, set by whoever is trusted to (a gateway);
// calls without it are one tenant together. Two limits, both judged before a request is parsed:
// - requests in flight at once;
// - tokens a second, prompts and answers together, as a bucket that fills at this rate. A request
// is
//   taken while there is something in the bucket and pays as its tokens are known, also into debt:
//   so the rate holds over time whatever a request's length, which nobody knows when it comes.
//
// Thread-safe. Memory is bounded by the tenants that are active or in debt.

#ifndef HYDRANT_SERVER_TENANTS_H_
#define HYDRANT_SERVER_TENANTS_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace hydrant::server {

struct TenantOptions {
  std::string metadata_key;      // lower case; empty: one tenant, no limits
  int32_t max_requests = 0;      // in flight for each tenant; 0: no limit
  double tokens_per_second = 0;  // for each tenant; 0: no limit
  double burst_tokens = 0;       // what a bucket holds; 0: ten seconds' worth
};

class Tenants {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr size_t kMaxNameBytes = 256;

  explicit Tenants(
      TenantOptions options, std::function<Clock::time_point()> now = [] { return Clock::now(); });
  Tenants(const Tenants&) = delete;
  Tenants& operator=(const Tenants&) = delete;

  const TenantOptions& options() const { return options_; }
  // Tenants that are remembered.
  size_t size() const {
    std::lock_guard lock(mutex_);
    return tenants_.size();
  }

 private:
  struct Tenant {
    int32_t requests = 0;
    double tokens = 0;  // in the bucket, as of `filled`; below 0: debt
    Clock::time_point filled;
  };

 public:
  // A request's place; given back when it goes. The Tenants outlives it.
  class Lease {
   public:
    Lease(Tenants& tenants, std::string name) : tenants_(tenants), name_(std::move(name)) {}
    ~Lease() { tenants_.Leave(name_); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;

    void Charge(int64_t tokens) { tenants_.Charge(name_, tokens); }
    const std::string& name() const { return name_; }

   private:
    Tenants& tenants_;
    const std::string name_;
  };

  // INVALID_ARGUMENT for a name that is too long; RESOURCE_EXHAUSTED with the reason
  // TENANT_REQUESTS, or TENANT_TOKENS and the time after which the debt is paid.
  absl::StatusOr<std::unique_ptr<Lease>> Enter(std::string_view name);

 private:
  friend class Lease;
  void Charge(const std::string& name, int64_t tokens);
  void Leave(const std::string& name);
  // With mutex_ held:
  void Fill(Tenant& tenant, Clock::time_point now) const;
  // Forgets who is as if never seen, once that may be half of all.
  void Sweep(Clock::time_point now);

  TenantOptions options_;
  const std::function<Clock::time_point()> now_;
  mutable std::mutex mutex_;
  std::map<std::string, Tenant, std::less<>> tenants_;
  size_t sweep_at_;
};

}  // namespace hydrant::server

#endif  // HYDRANT_SERVER_TENANTS_H_
