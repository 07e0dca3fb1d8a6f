// Compressed pushes and pulls, with a real server and two workers, message by message.
#include <gtest/gtest.h>

#include <deque>

#include "config/parse.h"
#include "optim/optimizer_spec.h"
#include "ps/shard_server.h"
#include "tests/compress/sender.h"
#include "worker/worker_protocol.h"

namespace dtrain::worker {
namespace {

using compress::Sender;

constexpr uint32_t kWorkers = 2;
constexpr double kRate = 0.5;

class Post final : public wire::Outbox {
 public:
  struct Letter {
    wire::Rank from, to;
    wire::Message message;
    wire::Payload payload;
  };
  void send(wire::Rank to, wire::Message message, wire::Payload payload) override {
    letters.push_back({sender, to, std::move(message), std::move(payload)});
  }
  wire::Rank sender = 0;
  std::deque<Letter> letters;
};

class NoSnapshots final : public ps::SnapshotSink {
  void snapshot(const wire::Snapshot&, ps::ShardState) override {}
};

std::shared_ptr<const compress::Method> method(const std::string& text, const compress::MethodSetting& setting = {}) {
  config::Diagnostics diagnostics;
  auto m = text.empty() ? nullptr : compress::read_text(text, diagnostics, setting);
  EXPECT_TRUE(diagnostics.ok());
  return m;
}

// Rank 0 is the server, and where the coordinator's messages end; ranks 1 and 2 are workers, each with one micro-batch.
class CompressionTest : public testing::Test {
 protected:
  static constexpr int64_t kSizes[] = {10, 70'000, 5};  // two chunks; a statistic

  void make(const std::string& pushes, const std::string& pulls, int64_t version = 0) {
    const auto table = config::parse_toml("lr = 1\n", "run.toml");
    config::Diagnostics diagnostics;
    optimizer_ = optim::read_optimizer_spec(*table, diagnostics).optimizer;
    ps::ShardServerOptions options{.micro_batches = kWorkers, .pool_bytes = size_t{1} << 26};
    options.pulls = method(pulls, {.use = compress::MethodSetting::Use::kParameters});
    server_ = std::make_unique<ps::ShardServer>(table_, 0, std::move(options), *optimizer_, post_, snapshots_);
    for (uint32_t b = 0; b < 3; ++b) server_->load(b, compress::normal(static_cast<size_t>(kSizes[b]), 90 + b));
    server_->start(version);
    pushes_ = method(pushes);
    workers_.clear();
    for (uint32_t w = 0; w < kWorkers; ++w) add_worker(w, version);
    pump();
  }
  void add_worker(uint32_t w, int64_t version) {
    workers_.resize(std::max<size_t>(workers_.size(), w + 1));
    Worker& worker = workers_[w];
    worker.memory.clear();
    for (const int64_t n : kSizes) worker.memory.emplace_back(static_cast<size_t>(n));
    WorkerProtocol::Setup setup{.server_ranks = {0}, .micro_batches = kWorkers};
    for (auto& m : worker.memory) setup.memory.push_back(m.data());
    setup.compression = {pushes_, kWorkers, 1.0};
    worker.protocol = WorkerProtocol::make(table_, std::move(setup), post_);
    tell(w, wire::Assign{.generation = ++generation_, .from = version, .until = 1000, .first = w, .last = w + 1});
  }
  void tell(uint32_t w, const wire::Message& message, ByteSpan payload = {}) {
    post_.sender = w + 1;
    const Status status = workers_[w].protocol->on_message(0, message, payload);
    ASSERT_TRUE(status) << status.error().message;
  }
  // Delivers until all is quiet.
  void pump() {
    while (!post_.letters.empty()) {
      Post::Letter letter = std::move(post_.letters.front());
      post_.letters.pop_front();
      if (std::holds_alternative<wire::NodeChunk>(letter.message)) pushed_ += letter.payload.bytes.size();
      if (const auto* chunk = std::get_if<wire::ParameterChunk>(&letter.message)) {
        pulled_ += letter.payload.bytes.size();
        updates_ += chunk->base >= 0;
      }
      if (letter.to > 0) {
        tell(letter.to - 1, letter.message, letter.payload.bytes);
      } else if (!std::holds_alternative<wire::MetricNode>(letter.message) &&
                 !std::holds_alternative<wire::WorkDone>(letter.message) &&
                 !std::holds_alternative<wire::Committed>(letter.message)) {
        post_.sender = 0;
        const Status status = server_->on_message(letter.from, letter.message, letter.payload.bytes);
        ASSERT_TRUE(status) << status.error().message;
      }
    }
  }
  std::vector<float> gradient(int64_t step, uint32_t w, uint32_t block) const {
    return compress::normal(static_cast<size_t>(kSizes[block]), static_cast<uint32_t>(step * 100 + w * 10 + block),
                            0.3f);
  }
  void train(int64_t step) {
    post_.sender = 0;
    ASSERT_TRUE(server_->on_message(0, wire::Rates{.from = step, .rates = {kRate}}));
    for (uint32_t w = 0; w < kWorkers; ++w) {
      WorkerProtocol& protocol = *workers_[w].protocol;
      const auto work = protocol.next_work();
      ASSERT_TRUE(work && work->step == step) << step;
      post_.sender = w + 1;
      protocol.started(*work);
      protocol.metrics(*work, {});
      for (uint32_t b = 0; b < 3; ++b) {
        auto values = std::make_shared<std::vector<float>>(gradient(step, w, b));
        protocol.gradient(*work, {static_cast<ParameterIndex>(b), 0, kSizes[b], values->data()}, values);
      }
      protocol.finished(*work);
      pump();
    }
  }
  void expect_workers_hold_what_the_server_has() {
    for (const Worker& worker : workers_)
      for (uint32_t b = 0; b < 3; ++b) {
        const auto values = server_->values(b);
        ASSERT_TRUE(compress::same_bits(worker.memory[b], {values.begin(), values.end()})) << "block " << b;
      }
  }

  struct Worker {
    std::vector<std::vector<float>> memory;
    std::unique_ptr<WorkerProtocol> protocol;
  };
  const ps::BlockTable table_{{{"small", {10}, ParameterKind::kTrainable},
                               {"large", {70'000}, ParameterKind::kTrainable},
                               {"mean", {5}, ParameterKind::kStatistic}},
                              1};
  std::shared_ptr<const optim::Optimizer> optimizer_;
  std::shared_ptr<const compress::Method> pushes_;
  Post post_;
  NoSnapshots snapshots_;
  std::unique_ptr<ps::ShardServer> server_;
  std::vector<Worker> workers_;
  uint32_t generation_ = 0;
  size_t pushed_ = 0, pulled_ = 0, updates_ = 0;
};

constexpr int64_t CompressionTest::kSizes[];

// Chunk by chunk, without a protocol: what one block must come to.
class Model {
 public:
  Model(const std::string& pushes, const std::string& pulls, const std::vector<float>& initial)
      : pulls_(pulls), exact_(initial), values_(initial) {
    for (uint32_t w = 0; w < kWorkers; ++w)
      for (size_t first = 0; first < initial.size(); first += 65'536)
        senders_[w].emplace_back(pushes, std::min<size_t>(65'536, initial.size() - first));
  }
  void step(int64_t step, const std::vector<float>& g0, const std::vector<float>& g1) {
    size_t first = 0;
    for (size_t c = 0; c < senders_[0].size(); ++c) {
      const size_t n = senders_[0][c].n;
      const auto part = [&](const std::vector<float>& v) {
        return std::vector<float>(v.begin() + static_cast<ptrdiff_t>(first),
                                  v.begin() + static_cast<ptrdiff_t>(first + n));
      };
      const compress::EncodeContext context{.step = step, .micro_batches = kWorkers};
      std::vector<float> root = senders_[0][c].send(part(g0), context);
      // As the server does: what is not sent is not added.
      senders_[1][c].method->codec().decode_add(senders_[1][c].encode(part(g1), context), root);
      for (size_t i = 0; i < n; ++i) exact_[first + i] -= static_cast<float>(kRate) * (0.5f * root[i]);
      if (pulls_.empty()) {
        std::copy_n(exact_.begin() + static_cast<ptrdiff_t>(first), n, values_.begin() + static_cast<ptrdiff_t>(first));
      } else {
        Sender update(pulls_, n, {.use = compress::MethodSetting::Use::kParameters});
        std::vector<float> lacking(n), values = part(values_);
        for (size_t i = 0; i < n; ++i) lacking[i] = exact_[first + i] - values[i];
        update.method->codec().decode_add(update.encode(lacking), values);
        std::copy(values.begin(), values.end(), values_.begin() + static_cast<ptrdiff_t>(first));
      }
      first += n;
    }
  }
  const std::vector<float>& exact() const { return exact_; }
  const std::vector<float>& values() const { return values_; }

 private:
  const std::string pulls_;
  std::vector<Sender> senders_[kWorkers];
  std::vector<float> exact_, values_;
};

TEST_F(CompressionTest, VersionsAreWhatTheRulesSay) {
  for (const std::string pushes : {"\"1bit\"", "\"2bit\"", "\"topk\"", "\"bf16\""}) {
    for (const std::string pulls : {"", "\"2bit\"", "\"1bit\"", "\"topk\"", "\"fp16\""}) {
      make(pushes, pulls);
      pushed_ = pulled_ = updates_ = 0;
      std::vector<Model> models;
      for (const uint32_t b : {0u, 1u})
        models.emplace_back(pushes, pulls, compress::normal(static_cast<size_t>(kSizes[b]), 90 + b));
      for (int64_t step = 0; step < 4; ++step) {
        train(step);
        for (const uint32_t b : {0u, 1u}) {
          models[b].step(step, gradient(step, 0, b), gradient(step, 1, b));
          const auto values = server_->values(b);
          ASSERT_TRUE(compress::same_bits(models[b].values(), {values.begin(), values.end()}))
              << pushes << " " << pulls << " step " << step << " block " << b;
        }
        expect_workers_hold_what_the_server_has();
      }
      // Of 280,060 bytes a step and worker at most half, either way; statistics go as they are.
      EXPECT_LT(pushed_, 8 * 141'000u) << pushes;
      if (pulls.empty()) {
        EXPECT_EQ(updates_, 0u);
        EXPECT_EQ(pulled_, 8 * 280'060u);
      } else {
        EXPECT_EQ(updates_, 8 * 3u) << pulls;
        EXPECT_LT(pulled_, 8 * 141'000u) << pulls;
      }
    }
  }
}

TEST_F(CompressionTest, StatisticsAreExact) {
  make("\"1bit\"", "\"1bit\"");
  train(0);
  const std::vector<float> a = gradient(0, 0, 2), b = gradient(0, 1, 2);
  for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(server_->values(2)[i], (a[i] + b[i]) / 2);
}

// What a version lacks of the exact values does not grow.
TEST_F(CompressionTest, VersionsFollowTheExactValues) {
  make("\"bf16\"", "\"2bit\"");
  Model model("\"bf16\"", "\"2bit\"", compress::normal(70'000, 91));
  double early = 0, late = 0;
  for (int64_t step = 0; step < 60; ++step) {
    model.step(step, gradient(step, 0, 1), gradient(step, 1, 1));
    double lacking = 0;
    for (size_t i = 0; i < 70'000; ++i) {
      const double d = double{model.exact()[i]} - double{model.values()[i]};
      lacking += d * d;
    }
    (step < 30 ? early : late) = std::max(step < 30 ? early : late, lacking);
  }
  EXPECT_LT(late, 1.5 * early);
}

TEST_F(CompressionTest, WhoComesLaterIsSentPlainValues) {
  make("\"2bit\"", "\"2bit\"");
  train(0);
  updates_ = 0;
  add_worker(1, 1);
  pump();
  EXPECT_EQ(updates_, 0u);
  expect_workers_hold_what_the_server_has();
  train(1);
  EXPECT_EQ(updates_, 6u);
  expect_workers_hold_what_the_server_has();
}

// An update counts on the version before it, whole: not on one of which a part is another.
TEST_F(CompressionTest, UpdatesOfSomethingElseAreNotTaken) {
  make("\"2bit\"", "\"2bit\"");
  train(0);
  const std::vector<float> before = workers_[0].memory[1];
  config::Diagnostics diagnostics;
  Sender sender("\"2bit\"", 65'536);
  const auto payload = sender.encode(compress::normal(65'536, 3));
  tell(0, wire::ParameterChunk{.block = 1, .version = 1, .chunk = 0, .base = 0, .codec = 4}, payload);  // there already
  tell(0, wire::ParameterChunk{.block = 1, .version = 2, .chunk = 0, .base = 1, .codec = 4}, payload);  // not asked for
  EXPECT_EQ(workers_[0].memory[1], before);
  Status bad = workers_[0].protocol->on_message(
      0, wire::ParameterChunk{.block = 1, .version = 1, .chunk = 0, .base = 0, .codec = 9}, payload);
  EXPECT_TRUE(bad);  // not wanted, so not looked at
  // A worker of its own, which waits for version 1 and holds none.
  add_worker(1, 1);
  post_.letters.clear();
  tell(1, wire::ParameterChunk{.block = 1, .version = 1, .chunk = 0, .base = 0, .codec = 4}, payload);
  for (const float x : workers_[1].memory[1]) ASSERT_EQ(x, 0.0f);
  bad = workers_[1].protocol->on_message(
      0, wire::ParameterChunk{.block = 1, .version = 1, .chunk = 0, .base = 0, .codec = 9}, payload);
  EXPECT_FALSE(bad);
  bad = workers_[1].protocol->on_message(
      0, wire::ParameterChunk{.block = 1, .version = 1, .chunk = 1, .base = 0, .codec = 4}, payload);
  EXPECT_FALSE(bad);
}

// A worker whose share is no single node of the tree pushes several in a step: what arrives of them is what momentum
// makes of their sum.
TEST_F(CompressionTest, MomentumIsOfAStepNotOfAPush) {
  const auto dgc = method("\"dgc\"", {.momentum = 0.5});
  OfferedGradients offers(table_, {0}, post_, {.method = dgc, .micro_batches = 3});
  std::vector<double> buffer(10);
  for (int64_t step = 0; step < 4; ++step) {
    std::vector<float> arrived(10);
    for (double& b : buffer) b *= 0.5;
    for (const ps::Node node : {ps::Node{0, 2}, ps::Node{2, 3}}) {
      auto values = std::make_shared<std::vector<float>>(gradient(step, node.first, 0));
      for (size_t i = 0; i < 10; ++i) buffer[i] += double{(*values)[i]};
      offers.offer({wire::StepKind::kTrain, step, node}, step, node, 0, values->data(), values);
      post_.letters.clear();
      ASSERT_TRUE(
          offers.on(0, wire::Take{.step = step, .block = 0, .first = node.first, .last = node.last, .chunks = 1}));
      ASSERT_EQ(post_.letters.size(), 1u);
      dgc->codec().decode_add(post_.letters.front().payload.bytes, arrived);
    }
    for (size_t i = 0; i < 10; ++i) ASSERT_NEAR(double{arrived[i]}, buffer[i], 1e-6) << step;
  }
}

// Asked twice for a chunk a worker sends the same bytes: what is not sent is kept once.
TEST_F(CompressionTest, AChunkIsEncodedOnce) {
  make("\"2bit\"", "");
  post_.sender = 1;
  WorkerProtocol& protocol = *workers_[0].protocol;
  const auto work = protocol.next_work();
  ASSERT_TRUE(work);
  protocol.started(*work);
  protocol.metrics(*work, {});
  auto values = std::make_shared<std::vector<float>>(gradient(0, 0, 1));
  protocol.gradient(*work, {1, 0, kSizes[1], values->data()}, values);
  std::vector<std::vector<std::byte>> sent;
  for (const uint32_t chunks : {0b01u, 0b11u}) {
    post_.letters.clear();
    tell(0, wire::Take{.step = 0, .block = 1, .first = 0, .last = 1, .chunks = chunks});
    const auto bytes = post_.letters.front().payload.bytes;
    sent.emplace_back(bytes.begin(), bytes.end());
  }
  EXPECT_EQ(sent[0], sent[1]);
  EXPECT_EQ(post_.letters.size(), 2u);
}

}  // namespace
}  // namespace dtrain::worker
