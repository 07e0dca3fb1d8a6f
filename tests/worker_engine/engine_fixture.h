// What the tests of the engine share: a small network, samples that are pure functions, a port that remembers, and
// single micro-batches computed on their own.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include "base/philox.h"
#include "tests/graph/network_text.h"
#include "tests/worker_engine/fake_samples.h"
#include "worker/engine/step_engine.h"

namespace dtrain::worker {

using Values = std::vector<float>;
constexpr int64_t kMicro = 3;  // samples
constexpr uint64_t kSeed = 11;

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
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
  explicit FakeFeed(const graph::Network& network) : samples_(network, kMicro) {}

  Result<Micro> take(const Work& work, uint32_t micro_batch) override {
    if (error) return fail(ExitCode::kData, "the disk is gone");
    taken.push_back(micro_batch);
    const bool partial = work.kind == wire::StepKind::kEval && micro_batch == partial_micro_batch;
    return samples_.make(work, micro_batch, partial ? 1 : kMicro);
  }

  std::vector<uint32_t> taken;
  uint32_t partial_micro_batch = UINT32_MAX;  // of an evaluation, that has one sample only
  bool error = false;

 private:
  FakeSamples samples_;
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
  size_t held_sets(const Work&) override { return sets_held; }
  double rate(const Work&, int64_t step) override { return 0.01 * static_cast<double>(step + 1); }
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
  size_t sets_held = 0;
  bool hold = false, refuse_memory = false;
  size_t fail_at = SIZE_MAX;

 private:
  std::span<const ParameterInfo> parameters_;
};

// A convolution with everything that is special: statistics that are final in the middle of forward, dropout that
// depends on step and place, a parameter kept in another layout.
inline const char* const kLayers = R"({ name = "conv", type = "conv2d", filters = 5, kernel = 3 },
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
  void make(uint32_t micro_batches, uint32_t eval_micro_batches = 0,
            const std::function<void(StepEngine::Setup&)>& more = nullptr) {
    k_ = micro_batches;
    eval_k_ = eval_micro_batches;
    StepEngine::Setup setup;
    setup.seed = kSeed;
    setup.micro_batches = k_;
    setup.eval_micro_batches = eval_k_;
    setup.values.assign(memory_.pointers().begin(), memory_.pointers().end());
    setup.train = compile(graph::Mode::kTrain);
    if (eval_k_ > 0) setup.eval = compile(graph::Mode::kEval);
    if (more) more(setup);
    engine_.emplace(network_.parameters(), std::move(setup), feed_, pool_);
  }

  // One micro-batch on its own, by a program that knows nothing of any other.
  Sums single(const Work& work, uint32_t micro_batch) { return single(work, micro_batch, memory_); }
  Sums single(const Work& work, uint32_t micro_batch, const ParameterStorage& at) {
    const bool training = work.kind == wire::StepKind::kTrain;
    FakeFeed feed(network_);
    feed.partial_micro_batch = feed_.partial_micro_batch;
    const Result<Micro> micro = feed.take(work, micro_batch);
    const ParameterStorage outputs(network_.parameters());
    const std::vector<const float*> values(at.pointers().begin(), at.pointers().end());
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

  Sums oracle(const Work& work, ps::Node node) {
    if (node.size() == 1) return single(work, node.first);
    const uint32_t middle = ps::split(node);
    Sums sums = oracle(work, {node.first, middle});
    const Sums right = oracle(work, {middle, node.last});
    for (size_t p = 0; p < sums.gradients.size(); ++p)
      for (size_t i = 0; i < sums.gradients[p].size(); ++i) sums.gradients[p][i] += right.gradients[p][i];
    sums.metrics += right.metrics;
    return sums;
  }

  static Work train(int64_t step, ps::Node node) { return {wire::StepKind::kTrain, step, node}; }
  static Work eval(int64_t step, ps::Node node) { return {wire::StepKind::kEval, step, node}; }

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

}  // namespace dtrain::worker
