#include "figures/reader_verdict.h"

#include <gtest/gtest.h>

namespace dtrain::figures {
namespace {

TEST(ReaderVerdict, AReaderThatKeepsUp) {
  EXPECT_EQ(reader_verdict(1, 1, 4), "the reader gives 1.0 times what the step takes");
  EXPECT_EQ(reader_verdict(12.34, 1, 4), "the reader gives 12.3 times what the step takes");
}

TEST(ReaderVerdict, MoreThreadsHelp) {
  EXPECT_EQ(reader_verdict(0.5, 1, 4), "the reader holds the step back: 0.5 times; set data.train.threads = 2");
  EXPECT_EQ(reader_verdict(0.5, 2, 4), "the reader holds the step back: 0.5 times; set data.train.threads = 4");
  EXPECT_EQ(reader_verdict(0.34, 1, 4), "the reader holds the step back: 0.34 times; set data.train.threads = 3");
}

// Not "1 times".
TEST(ReaderVerdict, AlmostEnoughIsNotEnough) {
  EXPECT_EQ(reader_verdict(0.98, 3, 4), "the reader holds the step back: 0.98 times; set data.train.threads = 4");
}

TEST(ReaderVerdict, ThreadsAreNotEnough) {
  EXPECT_EQ(
      reader_verdict(0.1, 1, 4),
      "the reader holds the step back: 0.1 times; set data.train.threads = 4, though 10 threads would keep up, and "
      "there are 4 cores: smaller images or fewer transforms help");
  EXPECT_EQ(
      reader_verdict(0.1, 4, 4),
      "the reader holds the step back: 0.1 times; 40 threads would keep up, and there are 4 cores: smaller images or "
      "fewer transforms help");
}

}  // namespace
}  // namespace dtrain::figures
