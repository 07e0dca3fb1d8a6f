// Stages of a network, each on a thread of its own with an exchange of its own, against StepEngine on the whole
// network.
#include "worker/engine/stage_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "base/philox.h"
#include "tests/graph/network_text.h"
#include "tests/worker_engine/fake_samples.h"
#include "worker/engine/step_engine.h"

namespace dtrain::worker {
namespace {

constexpr int64_t kMicro = 3;  // samples
constexpr uint64_t kSeed = 11;
constexpr auto kPatience = std::chrono::seconds(120);

class FakeFeed final : public BatchFeed {
 public:
  explicit FakeFeed(const graph::Network& network) : samples_(network, kMicro) {}

  Result<Micro> take(const Work& work, uint32_t micro_batch) override {
    if (broken) return fail(ExitCode::kData, "the disk is gone");
    const bool last = work.kind == wire::StepKind::kEval && micro_batch + 1 == work.node.last;
    return samples_.make(work, micro_batch, last ? 1 : kMicro);
  }
  bool broken = false;

 private:
  FakeSamples samples_;
};

// What left an engine: of each parameter the sum, and the metrics.
struct Sums {
  std::map<ParameterIndex, std::vector<float>> gradients;
  std::optional<Metrics> metrics;
  bool metrics_first = true;  // before any gradient
};

// Delivers what stages send each other, on a thread of its own, in the order of sending.
class Hub {
 public:
  ~Hub() { stop(); }
  void connect(std::vector<StageExchange*> exchanges) {
    exchanges_ = std::move(exchanges);
    thread_ = std::thread([this] { deliver(); });
  }
  void post(wire::Rank from, wire::Rank to, wire::Message message, wire::Payload payload) {
    const std::lock_guard lock(queue_mutex_);  // an exchange is locked, which wait() does under the other one
    letters_.push_back({from, to, std::move(message), std::move(payload)});
    posted_.notify_all();
  }
  Status wait(const std::function<bool()>& done) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, kPatience, [&] { return given_up_ || done(); }))
      return fail(ExitCode::kBug, "it hangs");
    return given_up_ ? fail(ExitCode::kInterrupted, "given up") : Status();
  }
  void give_up() {
    const std::lock_guard lock(mutex_);
    given_up_ = true;
    changed_.notify_all();
  }
  void stop() {
    {
      const std::lock_guard lock(queue_mutex_);
      stopping_ = true;
      posted_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
  }

 private:
  struct Letter {
    wire::Rank from = 0, to = 0;
    wire::Message message = wire::Ready{};
    wire::Payload payload;
  };
  void deliver() {
    for (;;) {
      Letter letter;
      {
        std::unique_lock lock(queue_mutex_);
        posted_.wait(lock, [&] { return stopping_ || !letters_.empty(); });
        if (letters_.empty()) return;
        letter = std::move(letters_.front());
        letters_.pop_front();
      }
      const std::lock_guard lock(mutex_);
      const Status status = exchanges_[letter.to]->on_message(letter.from, letter.message, letter.payload.bytes);
      EXPECT_TRUE(status) << status.error().message;
      changed_.notify_all();
    }
  }
  std::mutex queue_mutex_, mutex_;
  std::condition_variable posted_, changed_;
  std::deque<Letter> letters_;
  bool stopping_ = false, given_up_ = false;
  std::vector<StageExchange*> exchanges_;
  std::thread thread_;
};

class HubOutbox final : public wire::Outbox {
 public:
  HubOutbox(Hub& hub, wire::Rank self) : hub_(hub), self_(self) {}
  void send(wire::Rank to, wire::Message message, wire::Payload payload) override {
    hub_.post(self_, to, std::move(message), std::move(payload));
  }

 private:
  Hub& hub_;
  wire::Rank self_;
};

class Port final : public StepPort {
 public:
  Port(std::span<const ParameterInfo> parameters, Hub* hub) : parameters_(parameters), hub_(hub) {}
  Status await_parameter(const Work&, ParameterIndex p) override {
    needed.insert(p);
    return {};
  }
  Status await_memory(const Work&, const std::function<bool()>& free) override {
    if (!hub_) return fail(ExitCode::kBug, "no memory");
    return hub_->wait(free);
  }
  void metrics(const Work&, const Metrics& metrics) override {
    sums.metrics = metrics;
    sums.metrics_first = sums.gradients.empty();
  }
  void gradient(const Work&, const graph::ParameterOutput& sum, std::shared_ptr<const void> owner) override {
    EXPECT_TRUE(owner);
    std::vector<float>& all = sums.gradients[sum.parameter];
    all.resize(static_cast<size_t>(parameters_[static_cast<size_t>(sum.parameter)].shape.elements()), -1.0f);
    std::copy_n(sum.values, sum.elements, all.begin() + sum.first);
  }
  Sums sums;
  std::set<ParameterIndex> needed;

 private:
  std::span<const ParameterInfo> parameters_;
  Hub* hub_;
};

class StageEngineTest : public testing::TestWithParam<const char*> {
 protected:
  struct Cluster {
    ~Cluster() { hub.stop(); }  // before those to whom it delivers are gone
    Hub hub;
    graph::Split split;
    std::deque<HubOutbox> outboxes;
    std::deque<StageExchange> exchanges;
    std::deque<FakeFeed> feeds;
    std::deque<GradientPool> pools;
    std::deque<StageEngine> engines;
    std::deque<Port> ports;
    std::vector<Status> ends;
  };

  void define(const std::string& layers) {
    graph::NetworkText read = graph::read_network("[2, 6, 6]", layers);
    ASSERT_TRUE(read.network) << read.error;
    network_.emplace(std::move(*read.network));
    memory_.emplace(network_->parameters());
    for (size_t p = 0; p < network_->parameters().size(); ++p)
      network_->initialize(static_cast<ParameterIndex>(p), 100, 0,
                           {memory_->pointers()[p], static_cast<size_t>(network_->parameters()[p].shape.elements())});
  }

  std::vector<const float*> values() const { return {memory_->pointers().begin(), memory_->pointers().end()}; }

  Sums whole(const Work& work, uint32_t k, uint32_t eval_k) {
    StepEngine::Setup setup;
    setup.seed = kSeed;
    setup.micro_batches = k;
    setup.eval_micro_batches = eval_k;
    setup.values = values();
    setup.train = compile(graph::Mode::kTrain, nullptr, 0);
    setup.eval = compile(graph::Mode::kEval, nullptr, 0);
    FakeFeed feed(*network_);
    GradientPool pool(network_->parameters());
    StepEngine engine(network_->parameters(), std::move(setup), feed, pool);
    Port port(network_->parameters(), nullptr);
    EXPECT_TRUE(engine.run(work, port));
    return port.sums;
  }

  std::unique_ptr<graph::Executable> compile(graph::Mode mode, const graph::Split* split, int task) {
    auto program = graph::Executable::compile(*network_, mode, kMicro, GetParam(), {.split = split, .task = task});
    EXPECT_TRUE(program) << program.error().message;
    return std::move(*program);
  }

  static StageLinks links(const graph::Stage& stage, uint32_t micro_batches) {
    StageLinks links{.micro_batches = micro_batches, .imports = {}, .exports = {}};
    for (const auto& i : stage.imports)
      links.imports.push_back({static_cast<uint32_t>(i.value), static_cast<wire::Rank>(i.from), i.bytes});
    for (const auto& e : stage.exports)
      links.exports.push_back({static_cast<uint32_t>(e.value), {e.to.begin(), e.to.end()}});
    return links;
  }

  void make(Cluster& c, uint32_t k, uint32_t eval_k) {
    std::vector<int> given;
    int tasks = 1;
    for (const auto& l : network_->layers()) {
      given.push_back(l.device ? static_cast<int>(l.device->task) : -1);
      tasks = std::max(tasks, given.back() + 1);
    }
    c.split = graph::split_layers(*network_, given, tasks);
    std::vector<StageExchange*> exchanges;
    for (int t = 0; t < tasks; ++t) {
      StageEngine::Setup setup;
      setup.seed = kSeed;
      setup.micro_batches = k;
      setup.eval_micro_batches = eval_k;
      setup.eval_samples = (eval_k - 1) * kMicro + 1;
      setup.lanes = std::min(k, static_cast<uint32_t>(graph::micro_batches_under_way(c.split, t)));
      setup.sample_bytes = static_cast<size_t>(kMicro * network_->input().elements()) * sizeof(float);
      setup.label_bytes = static_cast<size_t>(kMicro) * sizeof(int32_t);
      setup.values = values();
      const std::vector<bool> held = graph::parameters_of(*network_, c.split, t);
      for (size_t p = 0; p < held.size(); ++p)
        if (!held[p]) setup.values[p] = nullptr;
      setup.train = compile(graph::Mode::kTrain, &c.split, t);
      setup.eval = compile(graph::Mode::kEval, &c.split, t);
      c.outboxes.emplace_back(c.hub, static_cast<wire::Rank>(t));
      c.exchanges.emplace_back(static_cast<uint32_t>(tasks) + 1, c.outboxes.back());
      c.exchanges.back().connect(links(setup.train->stage(), k), links(setup.eval->stage(), eval_k));
      exchanges.push_back(&c.exchanges.back());
      c.feeds.emplace_back(*network_);
      c.pools.emplace_back(network_->parameters(), held);
      c.engines.emplace_back(network_->parameters(), std::move(setup), c.feeds.back(), c.pools.back(),
                             c.exchanges.back());
      c.ports.emplace_back(network_->parameters(), &c.hub);
    }
    c.hub.connect(exchanges);
  }

  // All works one after the other, on every stage; the stages are not in step with each other.
  static void run(Cluster& c, const std::vector<Work>& works,
                  const std::function<void(size_t task, size_t work)>& after) {
    c.ends.assign(c.engines.size(), {});
    std::vector<std::thread> threads;
    for (size_t t = 0; t < c.engines.size(); ++t)
      threads.emplace_back([&, t] {
        omp_set_num_threads(1);  // a thread's own
        for (size_t w = 0; w < works.size() && c.ends[t]; ++w) {
          c.ports[t].sums = {};
          c.ends[t] = c.engines[t].run(works[w], c.ports[t]);
          if (!c.ends[t]) c.hub.give_up();
          after(t, w);
        }
      });
    for (std::thread& thread : threads) thread.join();
  }

  void expect_same_bits(const std::string& layers) {
    define(layers);
    for (const uint32_t k : {1u, 2u, 5u, 8u}) {
      constexpr uint32_t kEval = 7;
      std::vector<Work> works;
      for (int64_t step : {0, 1}) works.push_back({wire::StepKind::kTrain, step, {0, k}});
      works.push_back({wire::StepKind::kEval, 2, {0, kEval}});
      works.push_back({wire::StepKind::kTrain, 2, {0, k}});
      Cluster c;
      make(c, k, kEval);
      std::mutex mutex;
      std::vector<Sums> got(works.size());
      run(c, works, [&](size_t t, size_t w) {
        const std::lock_guard lock(mutex);
        Sums& of = c.ports[t].sums;
        for (auto& [p, values] : of.gradients) EXPECT_TRUE(got[w].gradients.emplace(p, std::move(values)).second);
        if (!of.metrics) return;
        EXPECT_FALSE(got[w].metrics);
        EXPECT_TRUE(of.metrics_first);
        got[w].metrics = of.metrics;
      });
      for (const Status& end : c.ends) ASSERT_TRUE(end) << end.error().message;
      for (size_t w = 0; w < works.size(); ++w) {
        const Sums want = whole(works[w], k, kEval);
        ASSERT_TRUE(got[w].metrics);
        EXPECT_EQ(std::memcmp(&*got[w].metrics, &*want.metrics, sizeof(Metrics)), 0) << "K = " << k << ", work " << w;
        ASSERT_EQ(got[w].gradients.size(), want.gradients.size());
        for (const auto& [p, values] : want.gradients)
          EXPECT_EQ(std::memcmp(got[w].gradients.at(p).data(), values.data(), values.size() * sizeof(float)), 0)
              << network_->parameters()[static_cast<size_t>(p)].name << ", K = " << k << ", work " << w;
      }
    }
  }

  std::optional<graph::Network> network_;
  std::optional<ParameterStorage> memory_;
};

constexpr char kConvolution[] = R"({ name = "conv", type = "conv2d", filters = 5, kernel = 3, pad = 1 },
  { name = "bn", type = "batch_norm", activation = "relu" },
  { name = "c2", type = "conv2d", filters = 5, kernel = 3, pad = 1, device = "/job:worker/task:1" },
  { name = "b2", type = "batch_norm" }, { name = "s", type = "add", inputs = ["b2", "bn"], activation = "relu" },
  { type = "dropout", rate = 0.3, device = "/job:worker/task:2" }, { type = "flatten" },
  { name = "fc", type = "linear", units = 4 }, { type = "softmax_cross_entropy" },)";

TEST_P(StageEngineTest, ThePipelineMakesTheSumsOfOneWorker) { expect_same_bits(kConvolution); }

TEST_P(StageEngineTest, SoItDoesThereAndBackAgain) {
  expect_same_bits(R"({ name = "a", type = "conv2d", filters = 4, kernel = 3, activation = "relu" },
    { name = "b", type = "conv2d", filters = 4, kernel = 3, device = "/job:worker/task:1" },
    { name = "c", type = "flatten", device = "/job:worker/task:0" }, { name = "d", type = "linear", units = 16 },
    { name = "e", type = "linear", units = 16, params.weight.share = "d.weight", device = "/job:worker/task:1" },
    { name = "f", type = "linear", units = 4 }, { type = "softmax_cross_entropy" },)");
}

TEST_P(StageEngineTest, AFrozenStageSendsOnly) {
  expect_same_bits(R"(
    { name = "a", type = "conv2d", filters = 4, kernel = 3, params.weight.frozen = true, params.bias.frozen = true },
    { type = "flatten" },
    { name = "f", type = "linear", units = 4, device = "/job:worker/task:1" }, { type = "softmax_cross_entropy" },)");
}

TEST_P(StageEngineTest, EachTaskNeedsItsOwnParametersOnly) {
  define(kConvolution);
  Cluster c;
  make(c, 4, 1);
  run(c, {{wire::StepKind::kTrain, 0, {0, 4}}}, [](size_t, size_t) {});
  std::set<ParameterIndex> all;
  for (const Port& port : c.ports)
    for (ParameterIndex p : port.needed) EXPECT_TRUE(all.insert(p).second);
  EXPECT_EQ(all.size(), network_->parameters().size());
}

TEST_P(StageEngineTest, AnErrorEndsTheWorkOfAll) {
  define(kConvolution);
  Cluster c;
  make(c, 4, 1);
  c.feeds[0].broken = true;
  run(c, {{wire::StepKind::kTrain, 0, {0, 4}}}, [](size_t, size_t) {});
  ASSERT_FALSE(c.ends[0]);
  EXPECT_EQ(c.ends[0].error().message, "the disk is gone");
  EXPECT_FALSE(c.ends[1]);
  EXPECT_FALSE(c.ends[2]);
}

INSTANTIATE_TEST_SUITE_P(Backends, StageEngineTest, testing::Values("reference", "cpu"));

}  // namespace
}  // namespace dtrain::worker
