// The engine against plain loops: single micro-batches computed on their own, summed along the tree by recursion.
#include "worker/engine/step_engine.h"

#include "engine_fixture.h"

namespace dtrain::worker {
namespace {

using ps::Node;

TEST_P(StepEngineTest, EveryNodeIsTheSumAlongTheTree) {
  for (uint32_t k = 1; k <= 6; ++k) {
    make(k);
    for (uint32_t first = 0; first < k; ++first)
      for (uint32_t last = first + 1; last <= k; ++last)
        if (ps::is_node({first, last}, k)) {
          expect_right(train(2, {first, last}));
          EXPECT_EQ(feed_.taken.size(), last - first);
          EXPECT_EQ(feed_.taken.front(), first);
          EXPECT_EQ(port_.memory_waits, 0);
        }
  }
}

TEST_P(StepEngineTest, WhatLeavesDoesNotDependOnWhatWasComputedBefore) {
  make(5);
  ASSERT_TRUE(run(train(0, {0, 4})));
  expect_right(train(0, {4, 5}));
  expect_right(train(0, {2, 4}));
  expect_right(train(1, {0, 5}));
}

TEST_P(StepEngineTest, NeedsNoMoreMemoryThanItSays) {
  make(13);
  for (const Node node : {Node{0, 13}, Node{0, 8}, Node{8, 13}, Node{8, 12}}) {
    ASSERT_TRUE(run(train(0, node)));
    EXPECT_EQ(port_.memory_waits, 0) << node.size();
  }
  EXPECT_EQ(StepEngine::sets_needed(1), 1u);
  EXPECT_EQ(StepEngine::sets_needed(2), 2u);
  EXPECT_EQ(StepEngine::sets_needed(5), 4u);
  EXPECT_EQ(StepEngine::sets_needed(8), 4u);
}

TEST_P(StepEngineTest, DoesNotWaitForMemoryThatWaitsForIt) {
  make(4);
  port_.hold = true;
  ASSERT_TRUE(run(train(1, {3, 4})));
  port_.sets_held = 1;
  ASSERT_TRUE(run(train(0, {2, 3})));
  EXPECT_EQ(port_.memory_waits, 0);
  port_.clear();
  ASSERT_TRUE(run(train(1, {2, 3})));
  EXPECT_EQ(port_.memory_waits, 1) << "for the step before";
}

TEST_P(StepEngineTest, AChangedParameterIsReadAnewAndAnUnchangedOneStays) {
  make(2, 1);
  expect_right(train(0, {0, 2}));
  set_version(1);
  expect_right(train(1, {0, 2}));
  expect_right(eval(1, {0, 1}));
  set_version(2);
  expect_right(eval(2, {0, 1}));
  expect_right(train(2, {0, 1}));
  set_version(1);  // back: a micro-batch of an earlier step is needed again
  expect_right(train(1, {1, 2}));
}

// In one process the server writes a parameter as soon as its gradient has left.
TEST_P(StepEngineTest, AParameterMayChangeOnceItsGradientHasLeft) {
  make(2);
  const Work work = train(0, {0, 2});
  const Sums wanted = oracle(work, work.node);
  class Overwriting final : public StepPort {
   public:
    Overwriting(const graph::Network& network, const ParameterStorage& memory) : network_(network), memory_(memory) {}
    Status await_parameter(const Work&, ParameterIndex) override { return {}; }
    Status await_memory(const Work&, const std::function<bool()>&) override { return fail(ExitCode::kBug, ""); }
    void metrics(const Work&, const Metrics&) override {}
    void gradient(const Work&, const graph::ParameterOutput& sum, std::shared_ptr<const void>) override {
      const ParameterIndex p = sum.parameter;
      const float* values = sum.values;
      const auto n = static_cast<size_t>(network_.parameters()[static_cast<size_t>(p)].shape.elements());
      gradients[p].assign(values, values + n);
      std::fill(memory_.at(p), memory_.at(p) + n, 1e20F);
    }
    std::map<ParameterIndex, Values> gradients;

   private:
    const graph::Network& network_;
    const ParameterStorage& memory_;
  } port(network_, memory_);
  ASSERT_TRUE(engine_->run(work, port));
  ASSERT_EQ(port.gradients.size(), wanted.gradients.size());
  for (const auto& [p, gradient] : port.gradients)
    EXPECT_TRUE(same_bits(gradient, wanted.gradients[static_cast<size_t>(p)]))
        << network_.parameters()[static_cast<size_t>(p)].name;
}

TEST_P(StepEngineTest, MetricsLeaveFirstThenStatisticsThenGradientsAsTheyBecomeFinal) {
  make(3);
  ASSERT_TRUE(run(train(0, {0, 3})));
  ASSERT_EQ(port_.left.size(), 1 + network_.parameters().size());
  const auto at = [&](const std::string& name) {
    return std::find(port_.left.begin(), port_.left.end(), name) - port_.left.begin();
  };
  EXPECT_EQ(at("metrics"), 0);
  EXPECT_EQ(std::min(at("bn.running_mean"), at("bn.running_var")), 1);
  EXPECT_EQ(std::max(at("bn.running_mean"), at("bn.running_var")), 2);
  for (const char* name : {"fc.weight", "fc.bias"})
    for (const char* before : {"bn.weight", "bn.bias"}) EXPECT_LT(at(name), at(before));
  for (const char* name : {"bn.weight", "bn.bias"})
    for (const char* before : {"conv.weight", "conv.bias"}) EXPECT_LT(at(name), at(before));
}

TEST_P(StepEngineTest, EveryMicroBatchWaitsForEveryParameterInForwardOrder) {
  make(2);
  ASSERT_TRUE(run(train(0, {0, 2})));
  const size_t n = network_.parameters().size();
  ASSERT_EQ(port_.awaited.size(), 2 * n);
  const std::vector<ParameterIndex> first(port_.awaited.begin(), port_.awaited.begin() + static_cast<ptrdiff_t>(n));
  EXPECT_TRUE(std::is_sorted(first.begin(), first.end()));
}

TEST_P(StepEngineTest, AnEvaluationHasItsOwnTreeAndNoGradients) {
  make(2, 5);
  feed_.partial_micro_batch = 4;
  expect_right(eval(3, {0, 5}));
  EXPECT_EQ(port_.sums.metrics.samples, 4 * kMicro + 1);
  EXPECT_EQ(port_.left, std::vector<std::string>{"metrics"});
  expect_right(eval(3, {0, 4}));
  expect_right(eval(3, {4, 5}));
}

TEST_P(StepEngineTest, WaitsForMemoryThatIsUnderWayToServers) {
  make(4);
  port_.hold = true;
  expect_right(train(0, {0, 1}));
  const std::vector<const float*> under_way = port_.pointers;
  auto held = std::move(port_.held);
  port_.held.clear();
  ASSERT_FALSE(held.empty());
  // As long as the port holds it, the only set is not written.
  feed_.taken.clear();
  FakePort next(network_.parameters());
  next.held = std::move(held);
  ASSERT_TRUE(engine_->run(train(0, {1, 2}), next));
  EXPECT_EQ(next.memory_waits, 1);
  EXPECT_EQ(next.pointers, under_way);
  // Two more are made for a larger node at once, though one is held.
  port_.hold = false;
  next.hold = true;
  ASSERT_TRUE(engine_->run(train(0, {3, 4}), next));
  ASSERT_TRUE(engine_->run(train(0, {0, 4}), next));
  EXPECT_EQ(next.memory_waits, 2) << "three sets for four micro-batches, one of them held";
}

TEST_P(StepEngineTest, AnErrorOfThePortEndsTheWorkAndLeavesNothingBehind) {
  make(4);
  for (size_t at = 0; at < 4 * network_.parameters().size(); ++at) {
    port_.fail_at = at;
    const Status status = run(train(1, {0, 4}));
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().message, "cancelled");
    EXPECT_EQ(port_.sums.gradients.size(), 0u);
  }
  port_.fail_at = SIZE_MAX;
  set_version(1);
  expect_right(train(2, {0, 4}));
  EXPECT_EQ(port_.memory_waits, 0) << "a cancelled work keeps no memory";
}

TEST_P(StepEngineTest, AWorkThatIsNotWantedAnyMoreEndsBetweenTwoOps) {
  make(4);
  class Stopping final : public StepPort {
   public:
    Status await_parameter(const Work&, ParameterIndex) override { return {}; }
    Status await_memory(const Work&, const std::function<bool()>&) override { return fail(ExitCode::kBug, ""); }
    Status still_wanted(const Work&) override {
      if (!stopped) return {};
      return fail(ExitCode::kInterrupted, "stopped");
    }
    void metrics(const Work&, const Metrics&) override { stopped = true; }
    void gradient(const Work&, const graph::ParameterOutput&, std::shared_ptr<const void>) override { ++gradients; }
    bool stopped = false;
    int gradients = 0;
  } port;
  const Status status = engine_->run(train(0, {0, 1}), port);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "stopped");
  EXPECT_LT(port.gradients, static_cast<int>(network_.parameters().size())) << "backward has ended early";
  expect_right(train(2, {0, 4}));
}

TEST_P(StepEngineTest, AnErrorWhileWaitingForMemoryEndsTheWork) {
  make(1);
  port_.hold = true;
  ASSERT_TRUE(run(train(0, {0, 1})));
  FakePort over(network_.parameters());
  over.refuse_memory = true;
  const Status status = engine_->run(train(1, {0, 1}), over);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "the run is over");
  EXPECT_TRUE(over.awaited.empty());
}

TEST_P(StepEngineTest, AnErrorOfTheDataIsHandedOn) {
  make(2);
  feed_.error = true;
  const Status status = run(train(0, {0, 2}));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ExitCode::kData);
  EXPECT_EQ(status.error().message, "the disk is gone");
}

INSTANTIATE_TEST_SUITE_P(Backends, StepEngineTest, testing::Values("reference", "cpu"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace dtrain::worker
