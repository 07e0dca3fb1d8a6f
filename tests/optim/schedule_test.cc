#include "optim/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/parse.h"

namespace dtrain::optim {
namespace {

using testing::HasSubstr;

std::unique_ptr<Schedule> read(const std::string& text, std::string* error = nullptr) {
  const auto table = config::parse_toml(text, "run.toml");
  EXPECT_TRUE(table.has_value());
  config::Diagnostics diagnostics;
  auto schedule = read_schedule(&*table, diagnostics);
  const std::string message = diagnostics.ok() ? "" : diagnostics.status().error().message;
  if (error) {
    *error = message;
  } else {
    EXPECT_EQ(message, "");
  }
  return schedule;
}

TEST(Schedule, IsConstantWhereThereIsNone) {
  config::Diagnostics diagnostics;
  const auto schedule = read_schedule(nullptr, diagnostics);
  EXPECT_TRUE(diagnostics.ok());
  EXPECT_EQ(schedule->factor(0, 10), 1.0);
  EXPECT_EQ(schedule->factor(9, 10), 1.0);
}

TEST(Schedule, WarmsUpBeforeAnyType) {
  for (const char* type : {"constant", "cosine", "step"}) {
    const auto schedule = read(std::string("warmup_steps = 4\ntype = '") + type + "'\n" +
                               (type == std::string("step") ? "gamma = 0.1\nevery = 3\n" : ""));
    EXPECT_EQ(schedule->factor(0, 100), 0.25);
    EXPECT_EQ(schedule->factor(3, 100), 1.0);
    EXPECT_EQ(schedule->factor(4, 100), 1.0);
  }
}

TEST(Schedule, StepsDown) {
  const auto schedule = read("type = 'step'\ngamma = 0.1\nevery = 3\nwarmup_steps = 1");
  EXPECT_EQ(schedule->factor(3, 100), 1.0);
  EXPECT_DOUBLE_EQ(schedule->factor(4, 100), 0.1);
  EXPECT_DOUBLE_EQ(schedule->factor(7, 100), 0.01);
}

TEST(Schedule, FallsAlongACosine) {
  const auto schedule = read("type = 'cosine'\nfloor = 0.2\nwarmup_steps = 2");
  EXPECT_DOUBLE_EQ(schedule->factor(2, 10), 1.0);
  EXPECT_DOUBLE_EQ(schedule->factor(6, 10), 0.2 + 0.8 * 0.5);
  EXPECT_NEAR(schedule->factor(4, 10), 0.2 + 0.8 * 0.5 * (1 + 0.70710678118654752), 1e-15);
  EXPECT_DOUBLE_EQ(read("type = 'cosine'")->factor(0, 1), 1.0);
}

TEST(Schedule, FallsAtMilestones) {
  const auto schedule = read("type = 'multistep'\ngamma = 0.5\nmilestones = [2, 5, 5]\nwarmup_steps = 1");
  EXPECT_EQ(schedule->factor(2, 100), 1.0);
  EXPECT_EQ(schedule->factor(3, 100), 0.5);
  EXPECT_EQ(schedule->factor(5, 100), 0.5);
  EXPECT_EQ(schedule->factor(6, 100), 0.125);
}

TEST(Schedule, FallsByAFactorEachStep) {
  const auto schedule = read("type = 'exponential'\ngamma = 0.5\nwarmup_steps = 1");
  EXPECT_EQ(schedule->factor(1, 100), 1.0);
  EXPECT_EQ(schedule->factor(4, 100), 0.125);
}

TEST(Schedule, FallsAlongAPower) {
  const auto schedule = read("type = 'poly'\npower = 2\nwarmup_steps = 2");
  EXPECT_EQ(schedule->factor(2, 10), 1.0);
  EXPECT_EQ(schedule->factor(6, 10), 0.25);
  EXPECT_EQ(schedule->factor(8, 10), 0.0625);
  EXPECT_EQ(read("type = 'poly'")->factor(3, 4), 0.25);
}

TEST(Schedule, NamesMistakes) {
  std::string error;
  EXPECT_NE(read("type = 'cosin'", &error), nullptr);
  EXPECT_THAT(error, HasSubstr("did you mean 'cosine'?"));
  read("type = 'step'\ngamma = 0.1", &error);
  EXPECT_THAT(error, HasSubstr("every"));
  read("warmup_step = 3", &error);
  EXPECT_THAT(error, HasSubstr("did you mean 'warmup_steps'?"));
  read("type = 'cosine'\nfloor = 2", &error);
  EXPECT_THAT(error, HasSubstr("floor"));
  read("type = 'multistep'\ngamma = 0.1\nmilestones = [5, 2]", &error);
  EXPECT_THAT(error, HasSubstr("'milestones' in [schedule] must not fall"));
  read("type = 'multistep'\ngamma = 0.1\nmilestones = [0]", &error);
  EXPECT_THAT(error, HasSubstr("milestones"));
  read("type = 'exponential'", &error);
  EXPECT_THAT(error, HasSubstr("gamma"));
  read("type = 'poly'\npower = -1", &error);
  EXPECT_THAT(error, HasSubstr("power"));
}

}  // namespace
}  // namespace dtrain::optim
