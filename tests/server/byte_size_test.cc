#include "server/byte_size.h"

#include <gtest/gtest.h>

namespace hydrant::server {
namespace {

TEST(ByteSizeTest, ReadsNumbersAndUnits) {
  EXPECT_EQ(ParseByteSize("0"), 0);
  EXPECT_EQ(ParseByteSize("65536"), 65536);
  EXPECT_EQ(ParseByteSize("100MB"), 100'000'000);
  EXPECT_EQ(ParseByteSize("100 mb"), 100'000'000);
  EXPECT_EQ(ParseByteSize("1KB"), 1000);
  EXPECT_EQ(ParseByteSize("3KiB"), 3072);
  EXPECT_EQ(ParseByteSize("4GiB"), int64_t{4} << 30);
  EXPECT_EQ(ParseByteSize("1.5GiB"), int64_t{3} << 29);
  EXPECT_EQ(ParseByteSize("2TB"), 2'000'000'000'000);
  EXPECT_EQ(ParseByteSize("7b"), 7);
}

TEST(ByteSizeTest, RefusesWhatIsNoSize) {
  for (const char* text : {"", "MB", "-1", "1.5", "12XB", "1 MB x", "nan", "inf", "1e3", "0x10",
                           "99999999999TiB", "MB1", "1,5GB", "9223372036854775808"}) {
    EXPECT_FALSE(ParseByteSize(text)) << text;
  }
}

TEST(ByteSizeTest, Formats) {
  EXPECT_EQ(FormatByteSize(0), "0 B");
  EXPECT_EQ(FormatByteSize(1023), "1023 B");
  EXPECT_EQ(FormatByteSize(1536), "1.5 KiB");
  EXPECT_EQ(FormatByteSize(int64_t{4} << 30), "4.0 GiB");
  EXPECT_EQ(FormatByteSize(int64_t{5000} << 40), "5000.0 TiB");
}

}  // namespace
}  // namespace hydrant::server
