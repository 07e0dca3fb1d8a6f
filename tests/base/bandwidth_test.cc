#include "base/bandwidth.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtrain {
namespace {

TEST(Bandwidth, Units) {
  for (const auto& [text, bytes] : std::initializer_list<std::pair<const char*, double>>{{"8bps", 1},
                                                                                         {"10Gbps", 1.25e9},
                                                                                         {"10 gbps", 1.25e9},
                                                                                         {"1Gbit/s", 125e6},
                                                                                         {"1Gb/s", 125e6},
                                                                                         {" 2.5 Gbits/s ", 312.5e6},
                                                                                         {"100Mbps", 12.5e6},
                                                                                         {"64kbit/s", 8e3},
                                                                                         {"1GBps", 1e9},
                                                                                         {"125MB/s", 125e6},
                                                                                         {"125 MByte/s", 125e6},
                                                                                         {"1GiB/s", 1073741824},
                                                                                         {"1Mibit/s", 131072},
                                                                                         {"1e9B/s", 1e9},
                                                                                         {"0.4Tbps", 50e9}}) {
    const Result<double> parsed = parse_bandwidth(text);
    ASSERT_TRUE(parsed) << parsed.error().message;
    EXPECT_DOUBLE_EQ(*parsed, bytes) << text;
  }
}

TEST(Bandwidth, Mistakes) {
  for (const auto& [text, why] :
       std::initializer_list<std::pair<const char*, const char*>>{{"", "does not begin with a number"},
                                                                  {"fast", "does not begin with a number"},
                                                                  {"10", "the unit is missing"},
                                                                  {"10G", "'G' is no unit"},
                                                                  {"10GB", "'GB' is no unit"},
                                                                  {"10 parsecs", "'parsecs' is no unit"},
                                                                  {"0Gbps", "more than 0"},
                                                                  {"-1Gbps", "more than 0"},
                                                                  {"0.5bps", "at least 1 bit/s"},
                                                                  {"1e-320GB/s", "at least 1 bit/s"},
                                                                  {"nanGbps", "more than 0"},
                                                                  {"infGbps", "more than 0"},
                                                                  {"1e999Gbps", "does not begin with a number"}}) {
    const Result<double> parsed = parse_bandwidth(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().code, ExitCode::kUsage);
    EXPECT_THAT(parsed.error().message, testing::HasSubstr(why));
    EXPECT_THAT(parsed.error().message, testing::HasSubstr("10Gbps"));
  }
}

TEST(Bandwidth, AsText) {
  EXPECT_EQ(bandwidth_text(1.25e9), "10 Gbit/s");
  EXPECT_EQ(bandwidth_text(100e6), "800 Mbit/s");
  EXPECT_EQ(bandwidth_text(50e9), "400 Gbit/s");
  EXPECT_EQ(bandwidth_text(1), "8 bit/s");
}

}  // namespace
}  // namespace dtrain
