// Networks cut into stages: what crosses the cut, and that all stages together make the bits of the whole.
#include "graph/stage.h"

#include <gmock/gmock.h>

#include <cstring>
#include <deque>
#include <map>

#include "graph/executable.h"
#include "tests/graph/network_text.h"
#include "tests/graph/training_data.h"

namespace dtrain::graph {
namespace {

using testing::ElementsAre;

std::vector<int> given(const Network& network, int& tasks) {
  std::vector<int> out;
  tasks = 1;
  for (const NetworkLayer& l : network.layers()) {
    out.push_back(l.device ? static_cast<int>(l.device->task) : -1);
    tasks = std::max(tasks, out.back() + 1);
  }
  return out;
}

// The stages of a network whose layers name tasks, in one process: values are handed on as they are made.
class Pipeline {
 public:
  Pipeline(const Network& network, Mode mode, int64_t n, const std::string& backend, size_t lanes = 1)
      : network_(network), mode_(mode) {
    int tasks = 0;
    const std::vector<int> devices = given(network, tasks);
    split_ = split_layers(network, devices, tasks);
    for (int t = 0; t < split_.tasks; ++t) {
      CompileOptions options;
      options.split = &split_;
      options.task = t;
      auto program = Executable::compile(network, mode, n, backend, options);
      EXPECT_TRUE(program) << program.error().message;
      programs_.push_back(std::move(*program));
      lanes_.emplace_back(lanes);
    }
  }

  // Runs the segment of a task as soon as it can be; `data[m]` belongs to micro-batch m, which has lane m. The outputs
  // lie in data[m] then.
  void run(std::vector<TrainingData*> data) {
    const size_t micro_batches = data.size();
    values_.clear();
    values_.resize(micro_batches);
    std::vector<std::vector<size_t>> next;  // [task][segment]: micro-batch
    for (const auto& program : programs_) next.emplace_back(program->stage().segments.size(), 0);
    for (bool any = true; any;) {
      any = false;
      for (size_t t = 0; t < programs_.size(); ++t)
        for (size_t s = next[t].size(); s-- > 0;) {
          const size_t m = next[t][s];
          if (m == micro_batches || (s > 0 && next[t][s - 1] <= m) || !there(t, s, m)) continue;
          run_segment(t, s, m, *data[m]);
          ++next[t][s];
          any = true;
          break;
        }
    }
    for (const auto& of_task : next) EXPECT_THAT(of_task, testing::Each(micro_batches));
  }

  const Stage& stage(size_t task) const { return programs_[task]->stage(); }
  const Executable& program(size_t task) const { return *programs_[task]; }
  const Split& split() const { return split_; }

 private:
  using Bytes = std::vector<std::byte>;

  class Taker : public Observer {
   public:
    Taker(Pipeline& pipeline, size_t task, size_t m) : pipeline_(pipeline), task_(task), m_(m) {}
    void exported(int which, ByteSpan bytes) override {
      const Stage::Export& out = pipeline_.stage(task_).exports[static_cast<size_t>(which)];
      EXPECT_EQ(out.bytes, bytes.size());
      // As a receiver has it: aligned, in memory of its own.
      Buffer copy(bytes.size());
      std::memcpy(copy.data(), bytes.data(), bytes.size());
      EXPECT_TRUE(pipeline_.values_[m_].emplace(out.value, std::move(copy)).second) << "made twice";
    }

   private:
    Pipeline& pipeline_;
    size_t task_, m_;
  };

  bool there(size_t t, size_t s, size_t m) const {
    for (int i : stage(t).segments[s].imports)
      if (!values_[m].contains(stage(t).imports[static_cast<size_t>(i)].value)) return false;
    return true;
  }

  void run_segment(size_t t, size_t s, size_t m, TrainingData& data) {
    std::vector<const void*> imports;
    for (const Stage::Import& import : stage(t).imports) {
      const auto at = values_[m].find(import.value);
      imports.push_back(at == values_[m].end() ? nullptr : at->second.data());
      if (at != values_[m].end()) {
        EXPECT_EQ(at->second.size(), import.bytes);
      }
    }
    Feed feed = data.feed();
    feed.imports = imports;
    Binding binding = data.binding();
    if (mode_ == Mode::kEval) binding.outputs = {};
    ops::RunContext context = data.context();
    context.first_sample = static_cast<int64_t>(m) * context.valid;
    Taker taker(*this, t, m);
    ASSERT_TRUE(programs_[t]->run_segment(lanes_[t][m], s, feed, binding, context, taker));
  }

  const Network& network_;
  const Mode mode_;
  Split split_;
  std::vector<std::unique_ptr<Executable>> programs_;
  std::deque<std::vector<Executable::Lane>> lanes_;  // by task
  std::deque<std::map<ValueId, Buffer>> values_;     // by micro-batch
};

std::vector<std::vector<float>> outputs_of(const Network& network, TrainingData& data) {
  std::vector<std::vector<float>> out;
  for (size_t p = 0; p < network.parameters().size(); ++p)
    out.emplace_back(data.output(p).begin(), data.output(p).end());
  return out;
}

class StageTest : public testing::TestWithParam<const char*> {
 protected:
  // Runs three micro-batches through the stages, and each by itself through the whole network; all bits are equal.
  void expect_same_bits(const std::string& table, int64_t n = 4) {
    const NetworkText read = read_network(table);
    ASSERT_TRUE(read.network) << read.error;
    const Network& network = *read.network;
    for (const Mode mode : {Mode::kTrain, Mode::kEval}) {
      std::deque<TrainingData> split, whole;
      std::vector<TrainingData*> pointers;
      for (uint64_t m = 0; m < 3; ++m) {
        split.emplace_back(network, n);
        whole.emplace_back(network, n);
        pointers.push_back(&split.back());
        if (network.input_dtype() == DType::kI32) continue;
        for (TrainingData* data :
             {&split.back(), &whole.back()})  // the same parameters for all, and another batch for each
          for (float& x : data->samples()) x += static_cast<float>(m);
      }
      Pipeline(network, mode, n, GetParam(), 3).run(pointers);
      const auto program = Executable::compile(network, mode, n, GetParam());
      ASSERT_TRUE(program);
      Observer nobody;
      for (size_t m = 0; m < 3; ++m) {
        Binding binding = whole[m].binding();
        if (mode == Mode::kEval) binding.outputs = {};
        ops::RunContext context = whole[m].context();
        context.first_sample = static_cast<int64_t>(m) * n;
        ASSERT_TRUE((*program)->run(whole[m].feed(), binding, context, nobody));
        EXPECT_EQ(std::memcmp(&whole[m].metrics(), &split[m].metrics(), sizeof(Metrics)), 0) << "micro-batch " << m;
        if (mode == Mode::kEval) continue;
        const auto want = outputs_of(network, whole[m]), got = outputs_of(network, split[m]);
        for (size_t p = 0; p < want.size(); ++p)
          EXPECT_EQ(std::memcmp(want[p].data(), got[p].data(), want[p].size() * sizeof(float)), 0)
              << network.parameters()[p].name << " of micro-batch " << m;
      }
    }
  }

  Network network(const std::string& table) {
    NetworkText read = read_network(table);
    EXPECT_TRUE(read.network) << read.error;
    return std::move(*read.network);
  }
};

constexpr char kMlp[] = R"(input = [12]
layers = [ { name = "a", type = "linear", units = 32 }, { name = "t", type = "relu", device = "/job:worker/task:1" },
  { name = "b", type = "linear", units = 16, activation = "tanh" },
  { name = "c", type = "linear", units = 5, device = "/job:worker/task:2" }, { type = "softmax_cross_entropy" } ]
)";

// A sum that batch norm takes over, its shortcut from before the cut; and from stage to stage and back.
constexpr char kResidual[] = R"(input = [3, 12, 12]
layers = [ { name = "c1", type = "conv2d", filters = 16, kernel = 3, pad = 1 },
  { name = "n1", type = "batch_norm", activation = "relu" },
  { name = "c2", type = "conv2d", filters = 16, kernel = 3, pad = 1, device = "/job:worker/task:1" },
  { name = "n2", type = "batch_norm" }, { name = "s", type = "add", inputs = ["n2", "n1"], activation = "relu" },
  { name = "c3", type = "conv2d", filters = 8, kernel = 3, device = "/job:worker/task:2" },
  { name = "n3", type = "batch_norm", activation = "relu" },
  { name = "p", type = "max_pool2d", kernel = 2, device = "/job:worker/task:0" }, { type = "flatten" },
  { type = "dropout", device = "/job:worker/task:1" },
  { name = "f", type = "linear", units = 5 }, { type = "softmax_cross_entropy" } ]
)";

// Weights that two stages share, and attention over what is embedded.
constexpr char kTokens[] = R"(input = [6]
layers = [ { name = "e", type = "embedding", vocab = 11, dim = 8 },
  { name = "l", type = "lstm", units = 8, device = "/job:worker/task:1" },
  { name = "a", type = "attention", heads = 2 },
  { name = "s", type = "add", inputs = ["a", "l"] },
  { name = "n", type = "layer_norm", device = "/job:worker/task:2" },
  { name = "h", type = "linear", units = 11, bias = false, params = { weight = { share = "e.weight" } } },
  { type = "softmax_cross_entropy" } ]
)";

TEST_P(StageTest, AllStagesTogetherMakeTheBitsOfTheWhole) {
  expect_same_bits(kMlp);
  expect_same_bits(kResidual);
  expect_same_bits(kTokens);
}

TEST_P(StageTest, ATowerOnEveryTask) {
  expect_same_bits(R"(input = [1, 8, 8]
layers = [ { name = "a", type = "conv2d", filters = 4, kernel = 3, activation = "relu" },
  { name = "b", type = "conv2d", filters = 4, kernel = 3, inputs = ["input"], device = "/job:worker/task:1" },
  { name = "a2", type = "conv2d", filters = 4, kernel = 3, inputs = ["a"], device = "/job:worker/task:2" },
  { name = "b2", type = "conv2d", filters = 4, kernel = 3, inputs = ["b"], activation = "sigmoid" },
  { name = "j", type = "concat", inputs = ["a2", "b2"], device = "/job:worker/task:0" }, { type = "flatten" },
  { name = "f", type = "linear", units = 5 }, { type = "softmax_cross_entropy", device = "/job:worker/task:1" } ]
)");
}

TEST_P(StageTest, FrozenLayersGetNoGradientBack) {
  const char* const table = R"(input = [12]
layers = [
  { name = "a", type = "linear", units = 8, activation = "relu", params.weight.frozen = true, params.bias.frozen = true },
  { name = "b", type = "linear", units = 5, device = "/job:worker/task:1" }, { type = "softmax_cross_entropy" } ]
)";
  expect_same_bits(table);
  const Network net = network(table);
  const Pipeline pipeline(net, Mode::kTrain, 4, GetParam());
  EXPECT_EQ(pipeline.stage(0).segments.size(), 1u);
  EXPECT_TRUE(pipeline.stage(0).imports.empty());
  EXPECT_EQ(pipeline.stage(0).forward_steps, static_cast<int>(pipeline.program(0).steps().size()));
}

TEST_P(StageTest, WhatCrossesTheCut) {
  const Network net = network(kMlp);
  const Pipeline pipeline(net, Mode::kTrain, 4, GetParam());
  EXPECT_THAT(pipeline.split().task_of_layer, ElementsAre(0, 1, 1, 2, 2));
  const Stage &first = pipeline.stage(0), &middle = pipeline.stage(1), &last = pipeline.stage(2);
  ASSERT_EQ(first.exports.size(), 1u);
  EXPECT_THAT(first.exports[0].to, ElementsAre(1));
  EXPECT_EQ(first.exports[0].bytes, 4u * 32 * sizeof(float));
  ASSERT_EQ(first.imports.size(), 1u);
  EXPECT_EQ(first.imports[0].from, 1);
  EXPECT_EQ(first.imports[0].bytes, 4u * 32 * sizeof(float));
  EXPECT_EQ(first.segments.size(), 2u);
  EXPECT_EQ(middle.imports.size(), 2u);
  EXPECT_EQ(middle.exports.size(), 2u);
  EXPECT_EQ(middle.segments.size(), 2u);
  // Forward, loss and backward in one go.
  EXPECT_EQ(last.segments.size(), 1u);
  EXPECT_TRUE(first.reads_sample && !first.reads_labels && !first.has_loss);
  EXPECT_TRUE(!middle.reads_sample && !middle.reads_labels && !middle.has_loss);
  EXPECT_TRUE(!last.reads_sample && last.reads_labels && last.has_loss);
  // Each has its own parameters only.
  const auto reads = [&](size_t task) {
    std::vector<std::string> names;
    for (size_t p = 0; p < net.parameters().size(); ++p)
      if (pipeline.program(task).reads(static_cast<ParameterIndex>(p))) names.push_back(net.parameters()[p].name);
    return names;
  };
  EXPECT_THAT(reads(0), ElementsAre("a.weight", "a.bias"));
  EXPECT_THAT(reads(1), ElementsAre("b.weight", "b.bias"));
  EXPECT_THAT(reads(2), ElementsAre("c.weight", "c.bias"));
}

TEST_P(StageTest, AShortcutGoesToEachStageThatReadsIt) {
  const Network net = network(R"(input = [12]
layers = [ { name = "a", type = "linear", units = 6 },
  { name = "b", type = "linear", units = 6, device = "/job:worker/task:1" },
  { name = "c", type = "linear", units = 6, device = "/job:worker/task:2" },
  { name = "s", type = "add", inputs = ["a", "b", "c"] }, { name = "f", type = "linear", units = 5 },
  { type = "softmax_cross_entropy" } ]
)");
  const Pipeline pipeline(net, Mode::kTrain, 4, GetParam());
  EXPECT_THAT(pipeline.split().task_of_layer, ElementsAre(0, 1, 2, 2, 2, 2));
  ASSERT_EQ(pipeline.stage(0).exports.size(), 1u);
  EXPECT_THAT(pipeline.stage(0).exports[0].to, ElementsAre(1, 2));
}

TEST_P(StageTest, AStageTakesTheMemoryOfItsPart) {
  const Network net = network(kResidual);
  const Pipeline pipeline(net, Mode::kTrain, 8, GetParam());
  const auto whole = Executable::compile(net, Mode::kTrain, 8, GetParam());
  ASSERT_TRUE(whole);
  size_t kept = 0;
  for (size_t t = 0; t < 3; ++t) {
    EXPECT_LT(pipeline.program(t).arena_bytes(), (*whole)->arena_bytes()) << t;
    kept += pipeline.program(t).persistent_bytes();
  }
  EXPECT_EQ(kept, (*whole)->persistent_bytes());
}

TEST(Split, ALayerIsWhereTheLastOfWhatItReadsIs) {
  const NetworkText read = read_network(R"(input = [12]
layers = [ { name = "a", type = "linear", units = 6, device = "/job:worker/task:2" },
  { name = "b", type = "linear", units = 6, device = "/job:worker/task:1" },
  { name = "s", type = "add", inputs = ["b", "a"] },
  { name = "i", type = "linear", units = 6, inputs = ["input"] },
  { name = "t", type = "add", inputs = ["s", "i"] }, { name = "f", type = "linear", units = 5, inputs = ["t"] },
  { type = "softmax_cross_entropy" } ]
)");
  ASSERT_TRUE(read.network) << read.error;
  int tasks = 0;
  const std::vector<int> devices = given(*read.network, tasks);
  const Split split = split_layers(*read.network, devices, tasks);
  EXPECT_THAT(split.task_of_layer, ElementsAre(2, 1, 1, 0, 0, 0, 0));
  EXPECT_THAT(parameters_of(*read.network, split, 1),
              ElementsAre(false, false, true, true, false, false, false, false));
  EXPECT_EQ(micro_batches_under_way(split, 2), 4);
  EXPECT_EQ(micro_batches_under_way(split, 1), 3);
  EXPECT_EQ(micro_batches_under_way(split, 0), 2);
}

INSTANTIATE_TEST_SUITE_P(Backends, StageTest, testing::Values("reference", "cpu"));

}  // namespace
}  // namespace dtrain::graph
