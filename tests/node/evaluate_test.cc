#include "node/evaluate.h"

#include <gtest/gtest.h>

#include "node/memory_estimate.h"
#include "node/server_pool.h"
#include "tests/node/run_text.h"
#include "worker/engine/parameter_storage.h"

namespace dtrain::node {
namespace {

ParameterSource initial_values(const RunDefinition& run) {
  return [&run, next = 0](const ParameterInfo& p, std::span<float> out) mutable -> Status {
    EXPECT_EQ(run.network->parameters()[static_cast<size_t>(next)], p);
    run.network->initialize(next++, run.spec.seed, 0, out);
    return {};
  };
}

TEST(Evaluate, EverySampleOnceWhateverTheBatch) {
  for (const std::string* text : {&kMlp, &kConvNet}) {
    RunFolder folder;
    const RunDefinition run = folder.open(*text);
    const auto one_by_one = evaluate(run, *run.test, 1, initial_values(run));
    ASSERT_TRUE(one_by_one) << one_by_one.error().message;
    EXPECT_EQ(one_by_one->samples, static_cast<double>(run.test->size()));
    EXPECT_GT(one_by_one->loss, 0);
    for (const int64_t batch : {4, 7, 10, 1000}) {
      const auto metrics = evaluate(run, *run.test, batch, initial_values(run));
      ASSERT_TRUE(metrics);
      EXPECT_EQ(metrics->samples, one_by_one->samples);
      EXPECT_EQ(metrics->correct, one_by_one->correct);
      EXPECT_NEAR(metrics->loss, one_by_one->loss, 1e-5 * one_by_one->loss) << batch;
    }
    const auto training = evaluate(run, *run.train, 16, initial_values(run));
    EXPECT_EQ(training->samples, 40);
  }
}

TEST(Evaluate, TheThreadsThatReadChangeNothing) {
  RunFolder folder;
  const RunDefinition run = folder.open(kMlp);
  const auto one = evaluate(run, *run.test, 4, initial_values(run)),
             three = evaluate(run, *run.test, 4, initial_values(run), 3);
  ASSERT_TRUE(one && three);
  EXPECT_EQ(three->loss, one->loss);
  EXPECT_EQ(three->samples, one->samples);
}

TEST(Evaluate, AnErrorOfTheSource) {
  RunFolder folder;
  const RunDefinition run = folder.open(kMlp);
  const auto metrics = evaluate(run, *run.test, 4, [](const ParameterInfo& p, std::span<float>) -> Status {
    return fail(ExitCode::kCheckpoint, "no " + p.name);
  });
  ASSERT_FALSE(metrics);
  EXPECT_EQ(metrics.error().message, "no fc1.weight");
}

TEST(MemoryEstimate, GradientSetsOfTheLargestShare) {
  RunFolder folder;
  const RunDefinition run = folder.open(kMlp);
  const ps::BlockTable table(run.network->parameters(), 1);
  const auto set = static_cast<double>(worker::ParameterStorage::bytes(table.parameters()));
  const auto sets = [&](uint32_t micro_batches, uint32_t workers) {
    const auto memory = estimate_memory(run, table, micro_batches, workers);
    EXPECT_TRUE(memory) << memory.error().message;
    EXPECT_GT(memory->activations, 0);
    EXPECT_GE(memory->parameters, set);
    EXPECT_EQ(memory->worker(), memory->activations + memory->parameters + memory->gradients);
    return memory->gradients / set;
  };
  EXPECT_EQ(sets(1, 1), 1);
  EXPECT_EQ(sets(4, 1), 3);
  EXPECT_EQ(sets(4, 2), 2);
  EXPECT_EQ(sets(4, 3), 2) << "one of three computes two";
  EXPECT_EQ(sets(4, 4), 1);
  EXPECT_EQ(sets(2, 5), 1) << "three of five have nothing";
}

TEST(MemoryEstimate, InOneProcessParametersAreThereOnceAndOneMicroBatchNeedsNoSetOfGradients) {
  RunFolder folder;
  for (const std::string* text : {&kMlp, &kConvNet}) {
    const RunDefinition run = folder.open(*text);
    const ps::BlockTable table(run.network->parameters(), 1);
    const auto statistics = static_cast<double>(
        worker::ParameterStorage::bytes(table.parameters(), worker::ParameterStorage::Of::kStatistics));
    const auto one = estimate_memory_alone(run, table, 1), two = estimate_memory_alone(run, table, 2);
    const auto tasks = estimate_memory(run, table, 2, 1);
    ASSERT_TRUE(one && two && tasks);
    EXPECT_EQ(one->gradients, statistics);
    EXPECT_EQ(one->versions, 0);
    EXPECT_EQ(two->gradients, tasks->gradients);
    EXPECT_EQ(two->process(), tasks->worker() + tasks->server() - tasks->versions);
  }
}

// Nodes of a share whose gradients servers may not have taken hold a set each.
TEST(MemoryEstimate, OfAShareOfSeveralNodes) {
  RunFolder folder;
  const RunDefinition run = folder.open(kMlp);
  const ps::BlockTable table(run.network->parameters(), 1);
  const auto set = static_cast<double>(worker::ParameterStorage::bytes(table.parameters()));
  const auto four = estimate_memory(run, table, 8, 4), three = estimate_memory(run, table, 8, 3);
  ASSERT_TRUE(four && three);
  EXPECT_EQ(four->gradients, 2 * set) << "two micro-batches each";
  EXPECT_EQ(three->gradients, 3 * set) << "the last has [5, 6) and [6, 8)";
}

// In `backup` there is room for a sum of every block.
TEST(MemoryEstimate, OfSumsOfPushes) {
  RunFolder folder;
  std::string text = kMlp;
  text.replace(text.find("units = 9"), 9, "units = 3000000");
  text.replace(text.find("steps = 8"), 9, "steps = 8\nconsistency = { type = 'backup', needed = 2 }");
  const RunDefinition run = folder.open(text);
  const ps::BlockTable table(run.network->parameters(), 1);
  const auto memory = estimate_memory(run, table, 2, 2);
  ASSERT_TRUE(memory);
  EXPECT_EQ(memory->sums, 4.0 * 3'000'000 * (6 + 1 + 3)) << "but for a bias of three";
}

TEST(MemoryEstimate, OfTheFullestServer) {
  RunFolder folder;
  const auto server = [&](const std::string& text, uint32_t servers) {
    const RunDefinition run = folder.open(text);
    const ps::BlockTable table(run.network->parameters(), servers);
    const auto memory = estimate_memory(run, table, 2, 1);
    EXPECT_TRUE(memory);
    EXPECT_EQ(memory->server(), memory->versions + memory->slots + memory->sums);
    return *memory;
  };
  const double elements = 6 * 9 + 9 + 9 * 3 + 3;
  EXPECT_EQ(server(kMlp, 1).versions, 2 * 4 * elements);
  EXPECT_EQ(server(kMlp, 1).slots, 2 * 4 * elements) << "adam has two";
  EXPECT_EQ(server(kMlp, 2).versions, 2 * 4 * 54) << "the largest parameter against the rest";
  EXPECT_EQ(server(kMlp, 1).sums, static_cast<double>(server_pool_bytes(2)));
  const double conv = 5 * 2 * 9 + 4 * 5 + 80 * 3 + 3;
  EXPECT_EQ(server(kConvNet, 1).versions, 2 * 4 * conv);
  const double trainable = conv - 2 * 5;  // without batch norm's statistics
  EXPECT_EQ(server(kConvNet, 1).slots, 4 * trainable);
  EXPECT_EQ(server(kConvNet, 1).sums, static_cast<double>(server_pool_bytes(2)) + 4 * trainable)
      << "with clip_norm roots wait";
}

}  // namespace
}  // namespace dtrain::node
