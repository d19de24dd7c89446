#include "server/tenants.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/error_status.h"

namespace hydrant::server {
namespace {

using Clock = Tenants::Clock;

class TenantsTest : public testing::Test {
 protected:
  Tenants Make(TenantOptions options) {
    return Tenants(options, [this] { return now_; });
  }
  Clock::time_point now_;
};

TEST_F(TenantsTest, RequestsAreCountedForEachTenant) {
  Tenants tenants = Make({.metadata_key = "t", .max_requests = 2});
  auto first = tenants.Enter("a");
  auto second = tenants.Enter("a");
  ASSERT_TRUE(first.ok() && second.ok());
  const auto third = tenants.Enter("a");
  EXPECT_TRUE(absl::IsResourceExhausted(third.status()));
  EXPECT_EQ(ReasonOf(third.status()), "TENANT_REQUESTS");
  EXPECT_TRUE(tenants.Enter("b").ok());
  first->reset();
  EXPECT_TRUE(tenants.Enter("a").ok());
}

TEST_F(TenantsTest, TokensAreADebtThatTimePays) {
  Tenants tenants = Make({.metadata_key = "t", .tokens_per_second = 100, .burst_tokens = 50});
  {
    auto lease = tenants.Enter("a");
    ASSERT_TRUE(lease.ok());
    (*lease)->Charge(250);  // 200 in debt
  }
  const auto refused = tenants.Enter("a");
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status()));
  EXPECT_EQ(ReasonOf(refused.status()), "TENANT_TOKENS");
  const auto delay = engine::RetryDelay(refused.status());
  ASSERT_TRUE(delay);
  EXPECT_EQ(delay->count(), 2010);
  EXPECT_TRUE(tenants.Enter("b").ok());
  now_ += *delay - std::chrono::milliseconds(15);
  EXPECT_FALSE(tenants.Enter("a").ok());
  now_ += std::chrono::milliseconds(15);
  EXPECT_TRUE(tenants.Enter("a").ok());
}

TEST_F(TenantsTest, APauseSavesNoMoreThanTheBurst) {
  Tenants tenants = Make({.metadata_key = "t", .tokens_per_second = 10, .burst_tokens = 0});
  auto lease = tenants.Enter("a");
  now_ += std::chrono::hours(1);
  (*lease)->Charge(100);  // ten seconds' worth is all there was
  EXPECT_FALSE(tenants.Enter("a").ok());
}

TEST_F(TenantsTest, ALongNameIsRefused) {
  Tenants tenants = Make({.metadata_key = "x-tenant", .max_requests = 2});
  const auto refused = tenants.Enter(std::string(Tenants::kMaxNameBytes + 1, 'a'));
  EXPECT_TRUE(absl::IsInvalidArgument(refused.status()));
  EXPECT_NE(std::string(refused.status().message()).find("x-tenant"), std::string::npos);
}

TEST_F(TenantsTest, WhoComesAndGoesIsForgottenAndWhoOwesIsNot) {
  Tenants tenants = Make({.metadata_key = "t", .tokens_per_second = 1, .burst_tokens = 10});
  {
    auto lease = tenants.Enter("debtor");
    (*lease)->Charge(1000);
  }
  auto held = tenants.Enter("active");
  for (int i = 0; i < 10'000; ++i) EXPECT_TRUE(tenants.Enter(std::to_string(i)).ok());
  EXPECT_LT(tenants.size(), 2000u);
  EXPECT_FALSE(tenants.Enter("debtor").ok());
  held->reset();  // its entry is still there
}

}  // namespace
}  // namespace hydrant::server
