#include "sim/simulation.h"

#include <gtest/gtest.h>

namespace dtrain::sim {
namespace {

TEST(SimulationTest, EverySeedEndsWithTheTruth) {
  constexpr uint64_t kSeeds = 300;
  int64_t steps = 0;
  uint64_t duplicates = 0, restarts = 0, overtaken = 0;
  int failures = 0;
  for (uint64_t seed = 1; seed <= kSeeds && failures < 5; ++seed) {
    const Scenario scenario = random_scenario(seed);
    const Outcome outcome = simulate(scenario);
    EXPECT_EQ(outcome.failure, "") << describe(scenario);
    failures += !outcome.failure.empty();
    steps += outcome.steps;
    duplicates += outcome.duplicates;
    restarts += outcome.restarts;
    overtaken += outcome.network.overtaken;
  }
  RecordProperty("steps", static_cast<int>(steps));
  // The search means something only if things do go wrong.
  EXPECT_GT(steps, 500);
  EXPECT_GT(duplicates, 500U);
  EXPECT_GT(restarts, 150U);
  EXPECT_GT(overtaken, 1000U);
}

TEST(SimulationTest, ASeedIsTheSameRunEveryTime) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const Outcome a = simulate(random_scenario(seed)), b = simulate(random_scenario(seed));
    EXPECT_EQ(a.network.delivered, b.network.delivered) << "seed " << seed;
    EXPECT_EQ(a.duplicates, b.duplicates) << "seed " << seed;
  }
}

// Every planted bug is found within so many seeds in which it had an occasion.
TEST(SimulationTest, PlantedBugsAreFound) {
  for (const SabotageName& planted : kSabotages) {
    bool found = false;
    int occasions = 0;
    for (uint64_t seed = 1; seed <= 2000 && occasions < 40 && !found; ++seed) {
      Scenario scenario = random_scenario(seed);
      scenario.sabotage = planted.sabotage;
      if (scenario.server_kill) continue;  // such a run may end before
      const Outcome outcome = simulate(scenario);
      occasions += outcome.sabotaged;
      found = !outcome.failure.empty();
    }
    EXPECT_TRUE(found) << planted.name << ", " << occasions << " occasions";
  }
}

}  // namespace
}  // namespace dtrain::sim
