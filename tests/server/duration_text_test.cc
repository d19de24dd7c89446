#include "server/duration_text.h"

#include <gtest/gtest.h>

namespace hydrant::server {
namespace {

TEST(DurationTextTest, ReadsNumbersAndUnits) {
  EXPECT_EQ(ParseDuration("0"), 0);
  EXPECT_EQ(ParseDuration("30"), 30);
  EXPECT_EQ(ParseDuration("1.5s"), 1.5);
  EXPECT_DOUBLE_EQ(*ParseDuration("200ms"), 0.2);
  EXPECT_DOUBLE_EQ(*ParseDuration("250us"), 250e-6);
  EXPECT_EQ(ParseDuration("2m"), 120);
  EXPECT_EQ(ParseDuration("1h"), 3600);
}

TEST(DurationTextTest, RefusesWhatIsNoTime) {
  for (const char* text : {"", "s", "-1s", "1 s", "1S", "1ss", "nan", "inf", "1e3", "1d", "1,5s",
                           "99999999999h", "1s "}) {
    EXPECT_FALSE(ParseDuration(text)) << text;
  }
}

TEST(DurationTextTest, WritesWhatItReads) {
  EXPECT_EQ(FormatDuration(0.2), "200ms");
  EXPECT_EQ(FormatDuration(1.5), "1.5s");
  EXPECT_EQ(FormatDuration(120), "120s");
}

}  // namespace
}  // namespace hydrant::server
