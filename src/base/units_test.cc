#include "base/units.h"

#include <gtest/gtest.h>

#include <limits>

namespace precast {
namespace {

TEST(Units, Times) {
  EXPECT_EQ(FormatMicroseconds(0), "0 us");
  EXPECT_EQ(FormatMicroseconds(0.25), "250 ns");
  EXPECT_EQ(FormatMicroseconds(0.9999), "1.00 us");
  EXPECT_EQ(FormatMicroseconds(3.417), "3.42 us");
  EXPECT_EQ(FormatMicroseconds(99.96), "100 us");
  EXPECT_EQ(FormatMicroseconds(999.6), "1.00 ms");
  EXPECT_EQ(FormatMicroseconds(18050), "18.1 ms");
  EXPECT_EQ(FormatMicroseconds(2.05e6), "2.05 s");
  EXPECT_EQ(FormatMicroseconds(1234567e6), "1,234,567 s");
  EXPECT_EQ(FormatMicroseconds(-5), "-5.00 us");
  EXPECT_EQ(FormatMicroseconds(std::numeric_limits<double>::infinity()), "-");
}

TEST(Units, Sizes) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(4096), "4.00 KiB");
  EXPECT_EQ(FormatBytes(1023 * 1024), "1.00 MiB") << "no four digits before a larger unit";
  EXPECT_EQ(FormatBytes(uint64_t{5} << 28), "1.25 GiB");
  EXPECT_EQ(FormatBytes(std::numeric_limits<uint64_t>::max()), "16.0 EiB");
}

TEST(Units, Rates) {
  EXPECT_EQ(FormatRate(0, "B"), "0 B/s");
  EXPECT_EQ(FormatRate(999, "B"), "999 B/s");
  EXPECT_EQ(FormatRate(999'600, "B"), "1.00 MB/s") << "no four digits before a larger unit";
  EXPECT_EQ(FormatRate(100'000'000'000, "B"), "100 GB/s");
  EXPECT_EQ(FormatRate(15'155'200'000'000, "op"), "15.2 Top/s");
  EXPECT_EQ(FormatRate(std::numeric_limits<uint64_t>::max(), "op"), "18.4 Eop/s");
}

TEST(Units, Counts) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(1000), "1,000");
  EXPECT_EQ(FormatCount(1234567), "1,234,567");
}

TEST(Units, SizesAreRead) {
  EXPECT_EQ(ParseBytes("0"), 0u);
  EXPECT_EQ(ParseBytes("640"), 640u);
  EXPECT_EQ(ParseBytes("64K"), uint64_t{64} << 10);
  EXPECT_EQ(ParseBytes("256M"), uint64_t{256} << 20);
  EXPECT_EQ(ParseBytes("2g"), uint64_t{2} << 30);
  EXPECT_EQ(ParseBytes("1TiB"), uint64_t{1} << 40);
  EXPECT_EQ(ParseBytes("18446744073709551615"), std::numeric_limits<uint64_t>::max());
  for (const char* bad : {"", "K", "-1", "+1", " 1", "1 K", "1.5G", "1MB", "1Kib", "1E", "1Mx",
                          "18446744073709551616", "16777216T"}) {
    EXPECT_FALSE(ParseBytes(bad)) << bad;
  }
}

}  // namespace
}  // namespace precast
