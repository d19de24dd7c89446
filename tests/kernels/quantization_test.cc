#include "kernels/quantization.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "kernels/float16.h"
#include "tests/kernels/backends.h"

namespace hydrant::kernels {
namespace {

TEST(HadamardBlock, IsTheLargestPowerOfTwoUpTo64ThatDivides) {
  EXPECT_EQ(HadamardBlock(1), 1);
  EXPECT_EQ(HadamardBlock(63), 1);
  EXPECT_EQ(HadamardBlock(6), 2);
  EXPECT_EQ(HadamardBlock(576), 64);
  EXPECT_EQ(HadamardBlock(96), 32);
  EXPECT_EQ(HadamardBlock(100), 4);
  EXPECT_EQ(HadamardBlock(4096), 64);
}

TEST(HadamardRotate, IsTheOrthonormalSylvesterMatrix) {
  for (const int64_t cols : {1, 3, 6, 8, 40, 96, 128, 192}) {
    SCOPED_TRACE(cols);
    const std::vector<float> row = RandomValues(cols, cols);
    const int64_t block = HadamardBlock(cols);
    std::vector<double> expected(cols, 0.0);
    for (int64_t i = 0; i < cols; ++i) {
      for (int64_t j = 0; j < block; ++j) {
        const int sign = std::popcount(static_cast<uint64_t>((i % block) & j)) % 2 == 0 ? 1 : -1;
        expected[i] += sign * double(row[i / block * block + j]) / std::sqrt(double(block));
      }
    }
    std::vector<float> rotated = row;
    HadamardRotate(rotated.data(), cols);
    ExpectClose(rotated, expected, 1e-6);
    HadamardRotate(rotated.data(), cols);  // its own inverse
    ExpectClose(rotated, row, 1e-6);
  }
}

TEST(QuantizeInt8, RoundsHalfToEvenAtTheRowsOwnScale) {
  const std::vector<float> row = {127.0f, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, 3.49f, -127.0f, 0.0f};
  std::vector<int8_t> values(row.size());
  EXPECT_EQ(QuantizeInt8(row.data(), row.size(), values.data()), 1.0f);
  EXPECT_EQ(values, (std::vector<int8_t>{127, 0, 2, 2, 0, -2, 3, -127, 0}));
}

TEST(QuantizeInt8, IsWithinHalfAStep) {
  const std::vector<float> row = RandomValues(7, 999, 0.02f);
  std::vector<int8_t> values(row.size());
  const float scale = QuantizeInt8(row.data(), row.size(), values.data());
  for (size_t i = 0; i < row.size(); ++i) {
    ASSERT_LE(std::fabs(row[i] - values[i] * scale), 0.5001f * scale) << i;
  }
}

TEST(QuantizeInt8, RowsWithoutAScaleAreZero) {
  for (const float tiny : {0.0f, 1e-40f, 1e-31f}) {
    const std::vector<float> row = {tiny, -tiny};
    std::vector<int8_t> values(2, 1);
    EXPECT_EQ(QuantizeInt8(row.data(), 2, values.data()), 0.0f);
    EXPECT_EQ(values, (std::vector<int8_t>{0, 0}));
  }
}

TEST(QuantizeInt8, StaysInRangeForAnyInput) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const std::vector<float>& row :
       {std::vector<float>{infinity, 1.0f, -infinity}, std::vector<float>{nan, 1.0f, -2.0f},
        std::vector<float>{3e38f, -3e38f, 1.0f}}) {
    std::vector<int8_t> values(3, -128);
    QuantizeInt8(row.data(), 3, values.data());
    for (const int8_t value : values) EXPECT_GE(value, -127);
  }
}

TEST(QuantizeGroups, SpansEachGroupWithItsLevels) {
  const std::vector<float> row = {-1.0f, 0.5f, 2.0f, 0.0f, 7.0f, 7.0f};
  std::vector<uint8_t> levels(6);
  std::vector<GroupRange> ranges(2);
  QuantizeGroups(row.data(), 6, 4, 2, levels.data(), ranges.data());
  EXPECT_EQ(levels, (std::vector<uint8_t>{0, 2, 3, 1, 0, 0}));  // 0.5 lies at 1.5: to even
  EXPECT_EQ(RangeNumber(ranges[0].zero), -1.0f);
  EXPECT_EQ(RangeNumber(ranges[0].scale), 1.0f);
  EXPECT_EQ(RangeNumber(ranges[1].zero), 7.0f);
  EXPECT_EQ(RangeNumber(ranges[1].scale), 0.0f);
}

// The range covers every number, also where bf16 cannot hold its ends, so none is clipped.
TEST(QuantizeGroups, IsWithinHalfAStep) {
  for (const int bits : {2, 4, 6, 8}) {
    for (const float offset : {0.0f, 100.0f, -100.0f}) {
      std::vector<float> row = RandomValues(bits, 70);
      for (float& x : row) x += offset;
      std::vector<uint8_t> levels(70);
      std::vector<GroupRange> ranges(3);
      QuantizeGroups(row.data(), 70, 32, bits, levels.data(), ranges.data());
      for (int i = 0; i < 70; ++i) {
        const float step = RangeNumber(ranges[i / 32].scale);
        ASSERT_LT(levels[i], 1 << bits);
        ASSERT_NEAR(RangeNumber(ranges[i / 32].zero) + levels[i] * step, row[i],
                    0.5f * step + 1e-4f)
            << bits << " bits, number " << i;
      }
    }
  }
}

TEST(QuantizeGroups, StaysInRangeForAnyInput) {
  const float huge = std::numeric_limits<float>::max();
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const float x : {huge, -huge, infinity, -infinity, nan, 1e-45f, -0.0f}) {
    for (const float y : {huge, -huge, infinity, nan, 0.0f}) {
      const float row[] = {x, y, 1.0f};
      uint8_t levels[3];
      GroupRange range;
      QuantizeGroups(row, 3, 3, 2, levels, &range);
      for (const uint8_t level : levels) EXPECT_LE(level, 3);
    }
  }
}

TEST(QuantizeInt4, IsWithinHalfAStep) {
  for (const float offset : {0.0f, 3.0f, -3.0f}) {
    std::vector<float> row = RandomValues(3, 70);
    for (float& x : row) x += offset;
    std::vector<uint8_t> levels(70);
    std::vector<Int4Range> ranges(Int4Groups(70));
    EXPECT_TRUE(QuantizeInt4(row.data(), 70, levels.data(), ranges.data()));
    for (int i = 0; i < 70; ++i) {
      const Int4Range range = ranges[i / kInt4Group];
      const float step = F16ToFloat(range.scale);
      ASSERT_LE(levels[i], 15);
      // The ends of the range are rounded to f16.
      ASSERT_NEAR(F16ToFloat(range.zero) + levels[i] * step, row[i], 0.5f * step + 4e-3f) << i;
    }
  }
}

TEST(QuantizeInt4, SaysWhereF16CannotSpanAGroup) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const float x : {1e30f, -1e30f, infinity, -infinity, nan}) {
    std::vector<float> row(40, 1.0f);
    row[35] = x;
    std::vector<uint8_t> levels(40, 99);
    std::vector<Int4Range> ranges(2);
    EXPECT_FALSE(QuantizeInt4(row.data(), 40, levels.data(), ranges.data())) << x;
    for (const uint8_t level : levels) EXPECT_LE(level, 15);
  }
}

}  // namespace
}  // namespace hydrant::kernels
