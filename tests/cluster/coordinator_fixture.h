// What the tests of the coordinator share: a cluster of four that is spoken for by hand, and who hears what it says.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cluster/coordinator.h"

namespace dtrain::cluster {

struct Sent final : wire::Outbox {
  struct Letter {
    wire::Rank to;
    wire::Message message;
  };
  void send(wire::Rank to, wire::Message message, wire::Payload) override { letters.push_back({to, message}); }
  template <typename M>
  std::vector<M> to(wire::Rank rank) const {
    std::vector<M> out;
    for (const Letter& letter : letters) {
      const M* m = std::get_if<M>(&letter.message);
      if (m != nullptr && letter.to == rank) out.push_back(*m);
    }
    return out;
  }
  std::vector<Letter> letters;
};

struct Lines final : Log {
  void write(LogLevel, std::string_view message) override { text += std::string(message) + "\n"; }
  std::string text;
};

struct Told final : CoordinatorEvents {
  void on_begin(int64_t step, uint32_t threads) override { began = {step, threads}; }
  void on_step(const StepReport& report) override { steps.push_back(report); }
  void on_eval(int64_t version, const Metrics& metrics) override { evals.emplace_back(version, metrics); }
  Status on_snapshot_complete(int64_t version, const std::vector<wire::SnapshotDone>& files) override {
    if (!disk_error.empty()) return fail(ExitCode::kCheckpoint, disk_error);
    snapshots.push_back(version);
    last_files = files;
    return {};
  }
  void on_snapshot_abandoned(int64_t version, const std::string&) override { abandoned.push_back(version); }
  void on_stopped(ExitCode c, const std::string& r) override {
    code = c;
    reason = r;
  }
  std::pair<int64_t, uint32_t> began{-1, 0};
  std::vector<StepReport> steps;
  std::vector<std::pair<int64_t, Metrics>> evals;
  std::vector<int64_t> snapshots, abandoned;
  std::vector<wire::SnapshotDone> last_files;
  std::string disk_error;
  std::optional<ExitCode> code;
  std::string reason;
};

// Ranks 0 and 1 hold parameters, 2 and 3 compute.
class CoordinatorTest : public testing::Test {
 protected:
  CoordinatorTest() : table_({{"a", {10}, ParameterKind::kTrainable}, {"b", {5}, ParameterKind::kTrainable}}, 2) {
    options_.tasks = {{"/job:ps/task:0", "h0:1", false, true},
                      {"/job:ps/task:1", "h1:1", false, true},
                      {"/job:worker/task:0", "h2:1", true, false},
                      {"/job:worker/task:1", "h3:1", true, false}};
    options_.steps = 4;
    options_.micro_batches = 4;
    options_.rate = [](int64_t step) { return 0.5 + static_cast<double>(step); };
  }
  void make() { c_ = std::make_unique<Coordinator>(options_, table_, sent_, log_, told_, now_); }
  void join(wire::Rank rank, uint32_t threads = 3) {
    EXPECT_TRUE(c_->on_message(rank, wire::Join{rank >= 2, rank < 2, threads, 7}));
  }
  void say(wire::Rank rank, wire::Message m) {
    const Status status = c_->on_message(rank, m);
    EXPECT_TRUE(status) << status.error().message;
  }
  void start() {
    make();
    for (wire::Rank rank = 0; rank < 4; ++rank) join(rank);
    for (wire::Rank rank = 0; rank < 4; ++rank) say(rank, wire::Ready{});
  }
  void metrics(int64_t step, double loss = 8, wire::StepKind kind = wire::StepKind::kTrain) {
    const uint32_t n = kind == wire::StepKind::kTrain ? options_.micro_batches : options_.eval_micro_batches;
    say(2, wire::MetricNode{kind, step, 0, n, {loss, 4, 1}});
  }
  // One step, done by everybody.
  void step(int64_t t) {
    metrics(t);
    say(0, wire::Committed{t + 1});
    say(1, wire::Committed{t + 1});
  }
  void everybody_leaves() {
    for (wire::Rank rank = 0; rank < 4; ++rank) say(rank, wire::Stopped{});
  }
  void tick(Nanoseconds after) { c_->on_tick(now_ += after); }

  CoordinatorOptions options_;
  ps::BlockTable table_;
  Sent sent_;
  Lines log_;
  Told told_;
  Instant now_ = 1'000 * kSecond;
  std::unique_ptr<Coordinator> c_;
};

}  // namespace dtrain::cluster
