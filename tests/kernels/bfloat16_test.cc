#include "kernels/bfloat16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace hydrant::kernels {
namespace {

TEST(BFloat16, HoldsItsOwnValuesExactly) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = BF16ToFloat(static_cast<uint16_t>(bits));
    if (std::isnan(value)) continue;
    ASSERT_EQ(FloatToBF16(value), bits);
  }
}

TEST(BFloat16, RoundsToNearestAndTiesToEven) {
  const float ulp = 0x1p-7f;  // of values in [1, 2)
  EXPECT_EQ(RoundToBF16(1.0f + 0.49f * ulp), 1.0f);
  EXPECT_EQ(RoundToBF16(1.0f + 0.51f * ulp), 1.0f + ulp);
  EXPECT_EQ(RoundToBF16(1.0f + 0.5f * ulp), 1.0f);
  EXPECT_EQ(RoundToBF16(1.0f + 1.5f * ulp), 1.0f + 2 * ulp);
  EXPECT_EQ(RoundToBF16(-1.0f - 1.5f * ulp), -1.0f - 2 * ulp);
}

TEST(BFloat16, KeepsSpecialValues) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(RoundToBF16(infinity), infinity);
  EXPECT_EQ(RoundToBF16(-infinity), -infinity);
  EXPECT_EQ(RoundToBF16(std::numeric_limits<float>::max()), infinity);
  EXPECT_TRUE(std::isnan(RoundToBF16(std::numeric_limits<float>::quiet_NaN())));
  // A NaN whose payload lies in the lower half alone must not become an infinity.
  EXPECT_TRUE(std::isnan(RoundToBF16(std::bit_cast<float>(0x7f800001u))));
  EXPECT_TRUE(std::isnan(RoundToBF16(std::bit_cast<float>(0xffffffffu))));
  EXPECT_TRUE(std::signbit(RoundToBF16(-0.0f)));
}

}  // namespace
}  // namespace hydrant::kernels
