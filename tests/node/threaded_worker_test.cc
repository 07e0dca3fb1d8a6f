// The worker's thread between a fake loop and fake servers: the test is the loop.
#include "node/threaded_worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "node/data_feed.h"
#include "tests/node/recording_outbox.h"
#include "tests/node/run_text.h"

namespace dtrain::node {
namespace {

using testing::HasSubstr;

// Functions posted by any thread, run by the test.
class FakeLoop {
 public:
  void post(std::function<void()> f) {
    {
      const std::lock_guard lock(mutex_);
      posted_.push_back(std::move(f));
    }
    changed_.notify_all();
  }
  // Runs what is posted until `done`; the test fails where that does not come.
  void run_until(const std::function<bool()>& done) {
    while (!done()) {
      std::function<void()> f;
      {
        std::unique_lock lock(mutex_);
        if (!changed_.wait_for(lock, std::chrono::seconds(20), [this] { return !posted_.empty(); })) {
          ADD_FAILURE() << "nothing is posted any more";
          return;
        }
        f = std::move(posted_.front());
        posted_.pop_front();
      }
      f();
    }
  }
  // Of what is there now.
  void run_pending() {
    for (;;) {
      std::function<void()> f;
      {
        const std::lock_guard lock(mutex_);
        if (posted_.empty()) return;
        f = std::move(posted_.front());
        posted_.pop_front();
      }
      f();
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> posted_;
};

class FakeListener final : public WorkerDriver::Listener {
 public:
  void worker_prepared() override {
    prepared = true;
    thread = std::this_thread::get_id();
  }
  void worker_failed(const Error& error) override { failure = error; }
  bool prepared = false;
  std::optional<Error> failure;
  std::thread::id thread;
};

// Says how many micro-batches were taken: a work that has taken its first one is in progress.
class NotingFeed final : public worker::BatchFeed {
 public:
  NotingFeed(std::unique_ptr<worker::BatchFeed> of, RecordingOutbox& taken) : of_(std::move(of)), taken_(taken) {}
  Result<worker::Micro> take(const worker::Work& work, uint32_t micro_batch) override {
    taken_.send(0, wire::Ready{});
    return of_->take(work, micro_batch);
  }

 private:
  std::unique_ptr<worker::BatchFeed> of_;
  RecordingOutbox& taken_;
};

class ThreadedWorkerTest : public testing::Test {
 protected:
  ThreadedWorkerTest() : worker_(post_, posted_, meter_, clock_) {}
  ~ThreadedWorkerTest() override {
    worker_.stop();
    loop_.run_pending();
  }

  void begin(const std::string& text = kMlp, const std::vector<std::string>& set = {}, uint32_t micro_batches = 2) {
    run_.emplace(folder_.open(text, set));
    begin_opened(micro_batches);
  }
  void begin_opened(uint32_t micro_batches = 2) {
    table_.emplace(run_->network->parameters(), 1);
    memory_.emplace(table_->parameters());
    const wire::Begin begin{
        .micro_batches = micro_batches, .eval_micro_batches = 0, .threads = 1, .step = 0, .checkpoint = ""};
    worker_.begin(std::make_unique<WorkerSide>(
                      *run_, *table_, *memory_, std::vector<wire::Rank>{0}, begin, outbox_,
                      std::make_unique<NotingFeed>(std::make_unique<DataFeed>(*run_, micro_batches, 0), taken_)),
                  listener_);
  }
  void wait_until_prepared() {
    loop_.run_until([&] { return listener_.prepared || listener_.failure; });
    ASSERT_TRUE(listener_.prepared);
  }
  void assign(int64_t from, int64_t until, uint32_t first, uint32_t last) {
    ASSERT_TRUE(worker_.deliver(0,
                                wire::Assign{.generation = ++generation_,
                                             .kind = wire::StepKind::kTrain,
                                             .from = from,
                                             .until = until,
                                             .first = first,
                                             .last = last},
                                {}));
  }
  void give_parameter(uint32_t block, int64_t version) {
    const ps::Block& b = table_->block(block);
    Buffer values(static_cast<size_t>(b.elements) * sizeof(float));
    run_->network->initialize(b.parameter, run_->spec.seed + static_cast<uint64_t>(version), b.first,
                              values.as<float>());
    ASSERT_TRUE(worker_.deliver(0, wire::ParameterChunk{block, version, 0}, {values.data(), values.size()}));
  }
  template <typename M>
  M expect_message() {
    const auto letter = outbox_.next();
    if (!letter || !std::holds_alternative<M>(letter->message)) {
      ADD_FAILURE() << "another message, of index " << (letter ? letter->message.index() : 0);
      return {};
    }
    payload_ = letter->payload;
    return std::get<M>(letter->message);
  }
  // Everything that a worker says in one node of a step, the pulls before it left out; being its last one,
  // with pulls for the next.
  void expect_node(int64_t step, uint32_t first, uint32_t last) {
    const auto metrics = expect_message<wire::MetricNode>();
    EXPECT_EQ(metrics.step, step);
    EXPECT_EQ(metrics.first, first);
    EXPECT_EQ(metrics.last, last);
    EXPECT_EQ(metrics.metrics.samples, 4 * (last - first));
    EXPECT_GT(metrics.metrics.loss, 0);
    for (size_t b = 0; b < table_->blocks().size(); ++b) {
      const auto chunk = expect_message<wire::NodeChunk>();
      EXPECT_EQ(chunk.step, step);
      EXPECT_EQ(payload_.bytes.size(), static_cast<size_t>(table_->block(chunk.block).elements) * sizeof(float));
      payloads_.push_back(payload_);
      EXPECT_EQ(expect_message<wire::Pull>(), (wire::Pull{chunk.block, step + 1, step}));
      absorbed_.push_back({chunk.step, chunk.block, chunk.first, chunk.last});
    }
  }
  void expect_pulls(int64_t version) {
    for (uint32_t b = 0; b < table_->blocks().size(); ++b) {
      const auto pull = expect_message<wire::Pull>();
      EXPECT_EQ(pull.block, b);
      EXPECT_EQ(pull.version, version);
    }
  }
  void answer_nodes() {
    payloads_.clear();
    payload_ = {};
    for (const wire::Absorbed& m : std::exchange(absorbed_, {})) ASSERT_TRUE(worker_.deliver(0, m, {}));
  }

  RunFolder folder_;
  std::optional<RunDefinition> run_;
  std::optional<ps::BlockTable> table_;
  std::optional<worker::ParameterStorage> memory_;
  RecordingOutbox outbox_, taken_;  // a letter for each micro-batch
  FakeLoop loop_;
  const PostedOutbox::Post post_ = [this](std::function<void()> f) { loop_.post(std::move(f)); };
  PostedOutbox posted_{outbox_, post_};
  FakeListener listener_;
  wire::Payload payload_;
  std::vector<wire::Payload> payloads_;
  std::vector<wire::Absorbed> absorbed_;
  uint32_t generation_ = 0;
  WorkerMeter meter_;
  SteadyClock clock_;
  ThreadedWorker worker_;  // last: goes first
};

TEST_F(ThreadedWorkerTest, ComputesAsParametersArrive) {
  begin();
  wait_until_prepared();
  EXPECT_EQ(listener_.thread, std::this_thread::get_id());
  EXPECT_TRUE(outbox_.empty());
  assign(0, 2, 0, 2);
  expect_pulls(0);
  for (uint32_t b = 0; b < 4; ++b) {
    EXPECT_TRUE(outbox_.empty()) << "block " << b << " is missing";
    give_parameter(b, 0);
  }
  expect_node(0, 0, 2);
  answer_nodes();
  for (uint32_t b = 4; b-- > 0;) give_parameter(b, 1);
  expect_node(1, 0, 2);
  EXPECT_FALSE(listener_.failure);
}

TEST_F(ThreadedWorkerTest, WaitsForMemoryThatIsUnderWay) {
  begin();
  wait_until_prepared();
  // Two nodes of one micro-batch each, for which one set of gradients is enough.
  assign(0, 1, 0, 1);
  expect_pulls(0);
  for (uint32_t b = 0; b < 4; ++b) give_parameter(b, 0);
  expect_node(0, 0, 1);
  taken_.next();
  for (const wire::Absorbed& m : std::exchange(absorbed_, {})) ASSERT_TRUE(worker_.deliver(0, m, {}));
  assign(0, 1, 0, 2);  // somebody else is gone: back to step 0, whose parameters it has still
  taken_.next();
  EXPECT_TRUE(outbox_.empty()) << "the server has it all, but the transport holds the memory still";
  payload_ = {};
  payloads_.clear();
  loop_.run_pending();  // the news that it is back
  expect_node(0, 1, 2);
}

TEST_F(ThreadedWorkerTest, AWorkThatIsOfNoUseAnyMoreIsLeft) {
  begin();
  wait_until_prepared();
  assign(0, 9, 0, 2);
  expect_pulls(0);
  give_parameter(0, 0);
  taken_.next();
  // Step 0 was done by others meanwhile; the worker goes on at step 3.
  assign(3, 9, 0, 2);
  expect_pulls(3);
  for (uint32_t b = 0; b < 4; ++b) give_parameter(b, 3);
  expect_node(3, 0, 2);
  loop_.run_pending();
  EXPECT_FALSE(listener_.failure);
}

// Before the compute thread, which the first of two messages wakes, has the lock, the second has come.
TEST_F(ThreadedWorkerTest, AWorkThatIsGoneBeforeItIsBegunIsLeft) {
  begin();
  wait_until_prepared();
  constexpr int64_t kEnd = 400;
  for (int64_t step = 0; step < kEnd; step += 2) {
    assign(step, step + 1, 0, 2);
    assign(step + 1, step + 2, 0, 0);
    std::this_thread::yield();
  }
  assign(kEnd, kEnd + 1, 0, 2);
  for (uint32_t pulled = 0; pulled < 4;) {
    const auto letter = outbox_.next();
    ASSERT_TRUE(letter);
    const auto* pull = std::get_if<wire::Pull>(&letter->message);
    pulled += pull != nullptr && pull->version == kEnd;
  }
  for (uint32_t b = 0; b < 4; ++b) give_parameter(b, kEnd);
  expect_node(kEnd, 0, 2);
  loop_.run_pending();
  EXPECT_FALSE(listener_.failure);
}

TEST_F(ThreadedWorkerTest, StopsInTheMiddleOfAWait) {
  begin();
  wait_until_prepared();
  assign(0, 9, 0, 2);
  expect_pulls(0);
  give_parameter(0, 0);
  taken_.next();
  worker_.stop();
  loop_.run_pending();
  EXPECT_FALSE(listener_.failure) << "the wish to end is no failure";
}

TEST_F(ThreadedWorkerTest, StopsBeforeAnythingWasToBeDone) {
  begin();
  worker_.stop();
  worker_.stop();
}

TEST_F(ThreadedWorkerTest, ANetworkThatCannotBeTrainedSoFails) {
  const std::string text = R"(
[data.train]
format = "synthetic"
[train]
batch = 2
micro_batch = 1
steps = 1
[optimizer]
lr = 0.1
[network]
input = [4]
layers = [{ type = "batch_norm" }, { type = "linear", units = 10 }, { type = "softmax_cross_entropy" }]
)";
  begin(text);
  loop_.run_until([&] { return listener_.failure.has_value(); });
  EXPECT_FALSE(listener_.prepared);
  EXPECT_EQ(listener_.failure->code, ExitCode::kUsage);
  EXPECT_THAT(listener_.failure->message, HasSubstr("micro_batch"));
}

TEST_F(ThreadedWorkerTest, AnErrorOfTheDataFails) {
  class Damaged final : public data::Dataset {
   public:
    explicit Damaged(std::shared_ptr<const data::Dataset> of) : of_(std::move(of)) {}
    int64_t size() const override { return of_->size(); }
    const Shape& sample_shape() const override { return of_->sample_shape(); }
    const data::LabelSpec& labels() const override { return of_->labels(); }
    int64_t max_label() const override { return of_->max_label(); }
    Digest digest() const override { return of_->digest(); }
    Status read(const data::Draw&, data::SampleOut, data::LabelOut) const override {
      return fail(ExitCode::kData, "the disk is gone");
    }

   private:
    std::shared_ptr<const data::Dataset> of_;
  };
  run_.emplace(folder_.open(kMlp));
  run_->train = std::make_shared<Damaged>(run_->train);
  begin_opened();
  wait_until_prepared();
  assign(0, 1, 0, 2);
  loop_.run_until([&] { return listener_.failure.has_value(); });
  EXPECT_EQ(listener_.failure->code, ExitCode::kData);
  EXPECT_EQ(listener_.failure->message, "the disk is gone");
}

TEST_F(ThreadedWorkerTest, ABrokenMessageIsThePeersFault) {
  begin();
  wait_until_prepared();
  EXPECT_FALSE(worker_.deliver(0, wire::Ready{}, {}));
  EXPECT_FALSE(worker_.deliver(5, wire::ParameterChunk{0, 0, 0}, {}));
  loop_.run_pending();
  EXPECT_FALSE(listener_.failure);
}

}  // namespace
}  // namespace dtrain::node
