#include "sim/simulation.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "tests/consistency/rule_text.h"

namespace dtrain::sim {
namespace {

TEST(SimulationTest, EverySeedEndsWithTheTruth) {
  constexpr uint64_t kSeeds = 250;
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
  EXPECT_GT(restarts, 125U);
  EXPECT_GT(overtaken, 1000U);
}

TEST(SimulationTest, ASeedIsTheSameRunEveryTime) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const Outcome a = simulate(random_scenario(seed)), b = simulate(random_scenario(seed));
    EXPECT_EQ(a.network.delivered, b.network.delivered) << "seed " << seed;
    EXPECT_EQ(a.duplicates, b.duplicates) << "seed " << seed;
  }
}

// Of the scenarios in [1, seeds], those that `make` makes something of.
struct Tally {
  int64_t runs = 0, steps = 0;
  uint64_t duplicates = 0, restarts = 0, stragglers = 0;
};
Tally simulate_all(uint64_t seeds, const std::function<bool(Scenario&)>& make) {
  Tally tally;
  for (uint64_t seed = 1; seed <= seeds && !testing::Test::HasFailure(); ++seed) {
    Scenario scenario = random_scenario(seed);
    if (!make(scenario)) continue;
    const Outcome outcome = simulate(scenario);
    EXPECT_EQ(outcome.failure, "") << describe(scenario);
    ++tally.runs;
    tally.steps += outcome.steps;
    tally.duplicates += outcome.duplicates;
    tally.restarts += outcome.restarts;
    tally.stragglers += outcome.stragglers;
  }
  return tally;
}

// A bound of nothing is synchronous training, to the bit, whoever is lost.
TEST(SimulationTest, StaleByNothingIsTheTruth) {
  const auto rule = consistency::rule_of("{ type = 'stale', bound = 0 }");
  const Tally tally = simulate_all(40, [&](Scenario& s) {
    s.rule = rule;
    return true;
  });
  EXPECT_GT(tally.restarts, 20U);
}

// Values depend on who was faster, but every step is made of each of its micro-batches once, and the run ends: also
// where workers are sent back from a step whose gradients no server has room for yet.
TEST(SimulationTest, StaleRunsEnd) {
  int64_t bound = 0;
  const Tally tally = simulate_all(150, [&](Scenario& s) {
    s.rule = consistency::rule_of(fmt::format("{{ type = 'stale', bound = {} }}", 1 + bound++ % 3));
    s.tolerance = std::numeric_limits<double>::infinity();
    s.micro_batches = 2 + s.micro_batches * 2;
    s.parameters.push_back({"second", {20'000}, ParameterKind::kTrainable});
    s.parameters.push_back({"third", {17'000}, ParameterKind::kTrainable});
    return true;
  });
  EXPECT_GT(tally.restarts, 80U);
}

// With as many pushes as there are micro-batches a step is of the same gradients, added in the order of their coming.
TEST(SimulationTest, BackupThatNeedsAllIsTheTruthButForTheOrderOfSums) {
  const Tally tally = simulate_all(60, [](Scenario& s) {
    s.rule = consistency::rule_of(fmt::format("{{ type = 'backup', needed = {} }}", s.micro_batches));
    s.tolerance = s.micro_batches > 2 ? 1e-3 : 0;  // a + b is b + a
    // A worker makes one push after the other: a block may wait for its next one while another has no room for this.
    s.parameters.push_back({"second", {20'000}, ParameterKind::kTrainable});
    return true;
  });
  EXPECT_GT(tally.restarts, 20U);
  EXPECT_GT(tally.steps, 100);
}

// The coordinator's own speculation: whoever computes a share, the bits are the same.
TEST(SimulationTest, HelpForASlowWorkerChangesNothing) {
  const Tally tally = simulate_all(80, [](Scenario& s) {
    if (s.workers < 2 || s.server_kill || s.interrupt_at) return false;
    s.speculate = true;
    s.slow_rank = s.listed() - 1;
    s.slow_factor = 40;
    s.compute_most = 20 * kMillisecond;
    return true;
  });
  EXPECT_GT(tally.runs, 25);
  EXPECT_GT(tally.stragglers, 10U);
  EXPECT_GT(tally.duplicates, 50U);
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
