#include "kernels/float16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace hydrant::kernels {
namespace {

TEST(Float16, EveryNumberComesBack) {
  for (uint32_t half = 0; half < 0x10000; ++half) {
    const float value = F16ToFloat(static_cast<uint16_t>(half));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(F16ToFloat(FloatToF16(value))));
    } else {
      ASSERT_EQ(FloatToF16(value), half);
    }
    EXPECT_EQ(IsFiniteF16(static_cast<uint16_t>(half)), std::isfinite(value)) << half;
  }
}

// Between each two neighbours: what is nearer, and the even one of what is as near.
TEST(Float16, RoundsToTheNearestTiesToEven) {
  for (uint16_t half = 0; half < 0x7bff; ++half) {
    const float low = F16ToFloat(half), high = F16ToFloat(half + 1);
    const float middle = (low + high) / 2;
    ASSERT_EQ(FloatToF16(std::nextafter(middle, low)), half);
    ASSERT_EQ(FloatToF16(middle), half % 2 == 0 ? half : half + 1);
    ASSERT_EQ(FloatToF16(-std::nextafter(middle, high)), 0x8000 | (half + 1));
  }
  EXPECT_EQ(FloatToF16(65519.0f), 0x7bff);
  EXPECT_EQ(FloatToF16(65520.0f), 0x7c00);
  EXPECT_EQ(FloatToF16(-std::numeric_limits<float>::infinity()), 0xfc00);
}

}  // namespace
}  // namespace hydrant::kernels
