#include "observe/progress.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace dtrain::observe {
namespace {

const ProgressState kState{
    .step = 50, .steps = 100, .epoch = 1.5, .epochs = 3, .loss = 0.25, .samples_per_s = 1234, .left = 65 * kSecond};

std::string written(ProgressMode mode, int updates, Nanoseconds apart, bool log_row) {
  char* text = nullptr;
  size_t size = 0;
  std::FILE* stream = open_memstream(&text, &size);
  {
    Progress progress(stream, mode, false);
    for (int i = 0; i < updates; ++i) progress.update(kState, i * apart, log_row);
  }
  std::fclose(stream);
  std::string result(text, size);
  std::free(text);
  return result;
}

size_t count(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

TEST(Progress, PlainLineSaysAll) {
  EXPECT_EQ(progress_line(kState), "epoch 1.50/3.00  step 50/100  loss 0.2500  1234 samples/s  1:05 left");
}

TEST(FormatLoss, OfTrainingThatDivergesToo) {
  EXPECT_EQ(format_loss(0.32634), "0.3263");
  EXPECT_EQ(format_loss(-12345.5), "-12345.5000");
  EXPECT_EQ(format_loss(106348682096.0), "1.063e+11");
  EXPECT_EQ(format_loss(std::nan("")), "nan");
}

TEST(Progress, BarIsHalfFullAndFitsTheWidth) {
  EXPECT_EQ(count(progress_bar(kState, 120, false), "━"), 15u);
  EXPECT_LE(progress_bar(kState, 40, false).size(), 40u);
}

TEST(Progress, BarIsRedrawnAtMostTenTimesASecond) {
  EXPECT_EQ(count(written(ProgressMode::kBar, 20, kSecond / 20, false), "loss"), 10u);
}

TEST(Progress, LinesAreForLogRowsOnlyAndHoldNoControlCharacters) {
  EXPECT_EQ(written(ProgressMode::kLines, 3, kSecond, false), "");
  const std::string text = written(ProgressMode::kLines, 3, 0, true);
  EXPECT_EQ(count(text, "\n"), 3u);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

TEST(Progress, Durations) {
  EXPECT_EQ(format_duration(41'200 * kMillisecond), "41.2 s");
  EXPECT_EQ(format_duration(185 * kSecond), "3:05");
  EXPECT_EQ(format_duration(8020 * kSecond), "2:13:40");
}

}  // namespace
}  // namespace dtrain::observe
