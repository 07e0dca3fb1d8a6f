// The engine against plain loops: single micro-batches computed on their own, summed along the tree by recursion.
#include "worker/engine/step_engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include "base/philox.h"
#include "tests/graph/network_text.h"

namespace dtrain::worker {
namespace {

using Values = std::vector<float>;
using ps::Node;

constexpr int64_t kMicro = 3;  // samples
constexpr uint64_t kSeed = 11;

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

// What comes of a node: of each parameter the sum, and the metrics'.
struct Sums {
  std::vector<Values> gradients;
  Metrics metrics;
};

// Samples and labels are functions of kind, step and micro-batch. Checks that each is asked for where it is due.
class FakeFeed final : public BatchFeed {
 public:
  explicit FakeFeed(const graph::Network& network)
      : samples_(static_cast<size_t>(kMicro * network.input().elements()) * sizeof(float)),
        labels_(static_cast<size_t>(kMicro) * sizeof(int32_t)),
        classes_(static_cast<uint32_t>(network.labels().classes)) {}

  Result<Micro> take(const Work& work, uint32_t micro_batch) override {
    if (error) return fail(ExitCode::kData, "the disk is gone");
    taken.push_back(micro_batch);
    const auto place = static_cast<uint32_t>(work.step * 64 + micro_batch);
    const Philox random(3, stream_id(work.kind == wire::StepKind::kTrain ? "train" : "eval"), place, 0);
    std::span<float> samples = samples_.as<float>();
    for (size_t i = 0; i < samples.size(); ++i) samples[i] = standard_normal(random.at(i));
    std::span<int32_t> labels = labels_.as<int32_t>();
    for (size_t i = 0; i < labels.size(); ++i)
      labels[i] = static_cast<int32_t>(random.at(samples.size() + i) % classes_);
    const bool partial = work.kind == wire::StepKind::kEval && micro_batch == partial_micro_batch;
    return Micro{samples.data(), labels_.data(), partial ? 1 : kMicro};
  }

  std::vector<uint32_t> taken;
  uint32_t partial_micro_batch = UINT32_MAX;  // of an evaluation, that has one sample only
  bool error = false;

 private:
  Buffer samples_, labels_;
  uint32_t classes_;
};

class FakePort final : public StepPort {
 public:
  explicit FakePort(std::span<const ParameterInfo> parameters) : parameters_(parameters) {}

  Status await_parameter(const Work&, ParameterIndex p) override {
    if (awaited.size() == fail_at) return fail(ExitCode::kInterrupted, "cancelled");
    awaited.push_back(p);
    return {};
  }
  Status await_memory(const Work&, const std::function<bool()>& free) override {
    ++memory_waits;
    EXPECT_FALSE(free());
    if (refuse_memory) return fail(ExitCode::kInterrupted, "the run is over");
    held.clear();
    EXPECT_TRUE(free());
    return {};
  }
  void metrics(const Work&, const Metrics& metrics) override {
    left.emplace_back("metrics");
    sums.metrics = metrics;
  }
  void gradient(const Work&, const graph::ParameterOutput& sum, std::shared_ptr<const void> owner) override {
    const ParameterIndex p = sum.parameter;
    const float* values = sum.values;
    const ParameterInfo& info = parameters_[static_cast<size_t>(p)];
    EXPECT_EQ(sum.elements, info.shape.elements());
    left.push_back(info.name);
    EXPECT_TRUE(owner);
    sums.gradients.resize(parameters_.size());
    sums.gradients[static_cast<size_t>(p)].assign(values, values + info.shape.elements());
    pointers.resize(parameters_.size());
    pointers[static_cast<size_t>(p)] = values;
    if (hold) held.push_back(std::move(owner));
  }
  // Forgets the work before, but not what is still held of it.
  void clear() {
    left.clear();
    awaited.clear();
    sums = {};
    pointers.clear();
    memory_waits = 0;
  }

  std::vector<std::string> left;  // in the order of leaving
  std::vector<ParameterIndex> awaited;
  Sums sums;
  std::vector<const float*> pointers;
  std::vector<std::shared_ptr<const void>> held;
  int memory_waits = 0;
  bool hold = false, refuse_memory = false;
  size_t fail_at = SIZE_MAX;

 private:
  std::span<const ParameterInfo> parameters_;
};

// A convolution with everything that is special: statistics that are final in the middle of forward, dropout that
// depends on step and place, a parameter kept in another layout.
const char* const kLayers = R"({ name = "conv", type = "conv2d", filters = 5, kernel = 3 },
                               { name = "bn", type = "batch_norm", activation = "relu" },
                               { type = "dropout", rate = 0.3 }, { type = "flatten" },
                               { name = "fc", type = "linear", units = 4 }, { type = "softmax_cross_entropy" },)";

class StepEngineTest : public testing::TestWithParam<const char*> {
 protected:
  StepEngineTest()
      : network_(*graph::read_network("[2, 5, 5]", kLayers).network),
        memory_(network_.parameters()),
        feed_(network_),
        pool_(network_.parameters()),
        port_(network_.parameters()) {
    set_version(0);
  }

  void set_version(uint64_t version) {
    for (size_t p = 0; p < network_.parameters().size(); ++p)
      network_.initialize(static_cast<ParameterIndex>(p), 100 + version, 0, {memory_.pointers()[p], elements(p)});
  }
  size_t elements(size_t p) const { return static_cast<size_t>(network_.parameters()[p].shape.elements()); }

  std::unique_ptr<graph::Executable> compile(graph::Mode mode) const {
    auto program = graph::Executable::compile(network_, mode, kMicro, GetParam());
    EXPECT_TRUE(program) << program.error().message;
    return std::move(*program);
  }
  void make(uint32_t micro_batches, uint32_t eval_micro_batches = 0) {
    k_ = micro_batches;
    eval_k_ = eval_micro_batches;
    StepEngine::Setup setup;
    setup.seed = kSeed;
    setup.micro_batches = k_;
    setup.eval_micro_batches = eval_k_;
    setup.values.assign(memory_.pointers().begin(), memory_.pointers().end());
    setup.train = compile(graph::Mode::kTrain);
    if (eval_k_ > 0) setup.eval = compile(graph::Mode::kEval);
    engine_.emplace(network_.parameters(), std::move(setup), feed_, pool_);
  }

  // One micro-batch on its own, by a program that knows nothing of any other.
  Sums single(const Work& work, uint32_t micro_batch) {
    const bool training = work.kind == wire::StepKind::kTrain;
    FakeFeed feed(network_);
    feed.partial_micro_batch = feed_.partial_micro_batch;
    const Result<Micro> micro = feed.take(work, micro_batch);
    const ParameterStorage outputs(network_.parameters());
    const std::vector<const float*> values(memory_.pointers().begin(), memory_.pointers().end());
    Metrics metrics;
    graph::Observer nobody;
    const auto program = compile(training ? graph::Mode::kTrain : graph::Mode::kEval);
    EXPECT_TRUE(program->run({micro->samples, micro->labels},
                             {values, training ? outputs.pointers() : std::span<float* const>(), &metrics},
                             {kSeed, work.step, micro_batch * kMicro, micro->valid}, nobody));
    Sums sums{{}, metrics};
    for (size_t p = 0; training && p < network_.parameters().size(); ++p)
      sums.gradients.emplace_back(outputs.pointers()[p], outputs.pointers()[p] + elements(p));
    return sums;
  }

  Sums oracle(const Work& work, Node node) {
    if (node.size() == 1) return single(work, node.first);
    const uint32_t middle = ps::split(node);
    Sums sums = oracle(work, {node.first, middle});
    const Sums right = oracle(work, {middle, node.last});
    for (size_t p = 0; p < sums.gradients.size(); ++p)
      for (size_t i = 0; i < sums.gradients[p].size(); ++i) sums.gradients[p][i] += right.gradients[p][i];
    sums.metrics += right.metrics;
    return sums;
  }

  static Work train(int64_t step, Node node) { return {wire::StepKind::kTrain, step, node}; }
  static Work eval(int64_t step, Node node) { return {wire::StepKind::kEval, step, node}; }

  Status run(const Work& work) {
    feed_.taken.clear();
    port_.clear();
    return engine_->run(work, port_);
  }
  void expect_right(const Work& work) {
    SCOPED_TRACE(testing::Message() << "K " << k_ << ", step " << work.step << ", node [" << work.node.first << ", "
                                    << work.node.last << ")");
    const Status status = run(work);
    ASSERT_TRUE(status) << status.error().message;
    const Sums wanted = oracle(work, work.node);
    EXPECT_EQ(port_.sums.metrics, wanted.metrics);
    ASSERT_EQ(port_.sums.gradients.size(), wanted.gradients.size());
    for (size_t p = 0; p < wanted.gradients.size(); ++p)
      EXPECT_TRUE(same_bits(port_.sums.gradients[p], wanted.gradients[p])) << network_.parameters()[p].name;
  }

  graph::Network network_;
  ParameterStorage memory_;
  FakeFeed feed_;
  GradientPool pool_;
  FakePort port_;
  uint32_t k_ = 0, eval_k_ = 0;
  std::optional<StepEngine> engine_;
};

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
