#include "observe/metrics_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace dtrain::observe {
namespace {

class MetricsFileTest : public ::testing::Test {
 protected:
  MetricsFileTest() {
    char name[] = "/tmp/dtrain-metrics.XXXXXX";
    folder_ = mkdtemp(name);
  }
  ~MetricsFileTest() override { std::filesystem::remove_all(folder_); }
  std::string path() const { return folder_ + "/metrics.jsonl"; }
  std::string text() const {
    std::ifstream in(path());
    std::stringstream all;
    all << in.rdbuf();
    return all.str();
  }
  std::string folder_;
};

TEST_F(MetricsFileTest, StepAndEventLines) {
  auto file = MetricsFile::open(path(), std::nullopt);
  ASSERT_TRUE(file);
  ASSERT_TRUE(file->step({.step = 3, .epoch = 0.5, .loss = 1.25, .shares = {}, .rate = 0.1, .samples_per_s = 10}));
  ASSERT_TRUE(file->event("eval", {{"step", "3"}, {"accuracy", json_number(0.875)}}));
  EXPECT_EQ(text(), R"({"step": 3, "epoch": 0.5000, "loss": 1.25, "lr": 0.1, "samples_per_s": 10.0}
{"event": "eval", "step": 3, "accuracy": 0.875}
)");
}

TEST_F(MetricsFileTest, ResumeCutsLaterStepsAndTornLines) {
  {
    auto file = MetricsFile::open(path(), std::nullopt);
    for (int64_t s = 1; s <= 4; ++s) ASSERT_TRUE(file->step({.step = s}));
    ASSERT_TRUE(file->event("eval", {{"step", "4"}}));
  }
  std::ofstream(path(), std::ios::app) << R"({"step": 5, "lo)";
  auto file = MetricsFile::open(path(), 2);
  ASSERT_TRUE(file);
  std::istringstream lines(text());
  int n = 0;
  for (std::string line; std::getline(lines, line); ++n) EXPECT_NE(line.find("\"step\""), std::string::npos);
  EXPECT_EQ(n, 2);
}

TEST_F(MetricsFileTest, AFolderThatIsNotThereIsAnError) {
  auto file = MetricsFile::open(folder_ + "/no/metrics.jsonl", std::nullopt);
  ASSERT_FALSE(file);
  EXPECT_NE(file.error().message.find("No such file"), std::string::npos);
}

TEST(JsonText, NumbersReadBackTheSameAndNothingElseIsWritten) {
  EXPECT_EQ(json_number(0.1), "0.1");
  EXPECT_EQ(std::stod(json_number(1.0 / 3)), 1.0 / 3);
  EXPECT_EQ(json_number(std::nan("")), "null");
  EXPECT_EQ(json_string("a\"b\n\xff"), "\"a\\\"b\\n\xEF\xBF\xBD\"");
}

}  // namespace
}  // namespace dtrain::observe
