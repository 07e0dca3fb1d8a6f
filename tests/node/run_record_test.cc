#include "node/run_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "checkpoint/model_file.h"
#include "tests/checkpoint/faulty_file_system.h"
#include "tests/node/run_text.h"

namespace dtrain::node {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

class RunRecordTest : public testing::Test {
 protected:
  RunRecordTest()
      : run_(folder_.open(kMlp, {"train.log_every=2", "train.keep_checkpoints=1"})),
        out_(folder_.path() + "/out"),
        progress_(stderr, observe::ProgressMode::kNone, false) {
    EXPECT_TRUE(out_.create(folder_.files));
    clock_.set(5 * kSecond);
  }

  void open(FileSystem& files, int64_t first_step = 0, int64_t steps = 8) {
    auto record =
        RunRecord::open(run_, {out_, first_step, steps, 2, "3 workers, 1 ps"}, files, clock_, log_, progress_);
    ASSERT_TRUE(record) << record.error().message;
    record_ = std::move(*record);
  }
  void open(int64_t first_step = 0, int64_t steps = 8) { open(folder_.files, first_step, steps); }
  void step(int64_t step, double mean_loss) {
    clock_.advance(kSecond / 4);
    record_->on_step({.step = step, .metrics = {mean_loss * 8, 8, 6}, .rate = 0.01, .norm = std::nullopt});
  }
  // A shard of everything, as a server writes it.
  wire::SnapshotDone shard(int64_t version, FileSystem& files) {
    checkpoint::CheckpointFolder folder(files, out_.checkpoints(), log_);
    const std::vector<float> values(64, static_cast<float>(version));
    std::vector<checkpoint::ShardBlock> blocks;
    for (const ParameterInfo& p : run_.network->parameters()) {
      const ByteSpan bytes = std::as_bytes(std::span(values).first(static_cast<size_t>(p.shape.elements())));
      checkpoint::ShardBlock block{p.name, 0, DType::kF32, bytes, {}};
      for (const std::string& slot : run_.optimizer.optimizer->slot_names()) block.slots.emplace_back(slot, bytes);
      blocks.push_back(std::move(block));
    }
    const auto file = folder.write_shard(version, 0, blocks);
    if (!file) return {.version = version, .file = "", .bytes = 0, .sha256 = {}, .error = file.error().message};
    return {.version = version, .file = file->name, .bytes = file->bytes, .sha256 = file->sha256, .error = ""};
  }
  Status snapshot(int64_t version) { return record_->on_snapshot_complete(version, {shard(version, folder_.files)}); }
  std::vector<Json> rows() const {
    std::vector<Json> all;
    for (const std::string& line : lines_of(out_.metrics())) all.push_back(Json::parse(line));
    return all;
  }

  RunFolder folder_;
  RunDefinition run_;
  OutFolder out_;
  ManualClock clock_;
  RememberingLog log_;
  observe::Progress progress_;
  std::unique_ptr<RunRecord> record_;
};

TEST_F(RunRecordTest, ARowEveryLogEverySteps) {
  open();
  record_->on_begin(0, 2);
  for (int64_t s = 0; s < 5; ++s) step(s, 2.0 - 0.25 * static_cast<double>(s));
  ASSERT_EQ(rows().size(), 3u);
  EXPECT_EQ(rows()[0], Json::parse(R"({"event": "begin", "name": "mlp", "step": 0, "steps": 8, "micro_batches": 2,
                                       "threads": 2, "tasks": "3 workers, 1 ps"})"));
  EXPECT_EQ(rows()[1], Json::parse(R"({"step": 2, "epoch": 0.4, "loss": 1.75, "accuracy": 0.75, "lr": 0.01,
                                       "samples_per_s": 32.0})"));
  EXPECT_EQ(rows()[2]["step"], 4);
  EXPECT_EQ(rows()[2]["loss"], 1.25);
  EXPECT_THAT(log_.text(),
              HasSubstr("mlp: 3 workers, 1 ps; 8 steps of 8 samples, 2 micro-batches a step, 2 threads each"));
}

TEST_F(RunRecordTest, TheTimeOfAnEvaluationIsNoTrainingTime) {
  open();
  record_->on_begin(0, 1);
  step(0, 1);
  step(1, 1);
  clock_.advance(100 * kSecond);
  record_->on_eval(2, {9, 18, 12});
  step(2, 1);
  step(3, 1);
  EXPECT_EQ(rows()[2], Json::parse(R"({"event": "eval", "step": 2, "loss": 0.5, "accuracy": 0.6666666666666666,
                                       "samples": 18})"));
  EXPECT_EQ(rows()[3]["samples_per_s"], 32.0);
  EXPECT_THAT(log_.text(), HasSubstr("after step 2: test loss 0.5000, accuracy 0.6667"));
}

TEST_F(RunRecordTest, ACheckpointHoldsWhatAResumeNeeds) {
  open();
  record_->on_begin(0, 2);
  ASSERT_TRUE(snapshot(4));
  EXPECT_EQ(rows().back(), Json::parse(R"({"event": "checkpoint", "step": 4})"));
  const auto manifest = checkpoint::load_manifest(folder_.files, out_.checkpoints() + "/step-00000004");
  ASSERT_TRUE(manifest) << manifest.error().message;
  EXPECT_EQ(manifest->step, 4);
  EXPECT_EQ(manifest->micro_batches, 2);
  EXPECT_EQ(manifest->threads, 2);
  EXPECT_EQ(manifest->seed, 7u);
  EXPECT_EQ(manifest->run_name, "mlp");
  EXPECT_EQ(manifest->run_digest, to_hex(run_.run_digest));
  EXPECT_EQ(manifest->parameters.size(), 4u);
  EXPECT_EQ(manifest->slots.size(), 2u);
  // The configuration in it is the run's.
  const auto again = folder_.read(manifest->config);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->run_digest, run_.run_digest);
  EXPECT_FALSE(*folder_.files.exists(out_.model()));
  // The next takes its place.
  ASSERT_TRUE(snapshot(6));
  EXPECT_EQ(*folder_.files.list(out_.checkpoints()), std::vector<std::string>{"step-00000006"});
}

TEST_F(RunRecordTest, TheEndLeavesTheModelAndItsHash) {
  open();
  record_->on_begin(0, 1);
  step(7, 0.5);
  record_->on_eval(8, {9, 18, 12});
  ASSERT_TRUE(snapshot(8));
  record_->on_stopped(ExitCode::kDone, "");
  EXPECT_TRUE(record_->outcome());
  const auto model = checkpoint::SafetensorsReader::open(folder_.files, out_.model());
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->tensors().size(), 4u);
  const std::string hash = to_hex(*checkpoint::model_hash(*model));
  EXPECT_EQ(rows().back(),
            Json({{"event", "end"}, {"step", 8}, {"seconds", 0.25}, {"test_accuracy", 12.0 / 18}, {"model", hash}}));
  EXPECT_THAT(log_.text(), HasSubstr("done: 8 steps, loss 0.5000, test accuracy 0.6667, 0.2 s, model " + hash));
}

TEST_F(RunRecordTest, ARunThatIsEndedSaysWhy) {
  open();
  record_->on_begin(0, 1);
  record_->on_stopped(ExitCode::kNotFinite, "the gradient of \"fc1\"\nis not finite");
  EXPECT_EQ(rows().back(),
            Json({{"event", "stopped"}, {"exit_code", 7}, {"reason", "the gradient of \"fc1\"\nis not finite"}}));
  EXPECT_FALSE(*folder_.files.exists(out_.model()));
}

TEST_F(RunRecordTest, ACheckpointThatCouldNotBeWritten) {
  open();
  record_->on_begin(0, 1);
  shard(4, folder_.files);
  record_->on_snapshot_abandoned(4, "/job:ps/task:1: No space left on device");
  EXPECT_EQ(rows().back(), Json::parse(R"({"event": "checkpoint_failed", "step": 4,
                                           "reason": "/job:ps/task:1: No space left on device"})"));
  EXPECT_THAT(log_.text(), HasSubstr("the checkpoint of step 4 was not written"));
  EXPECT_TRUE(folder_.files.list(out_.checkpoints())->empty()) << "nothing half-written stays";
}

TEST_F(RunRecordTest, AManifestThatCannotBeWrittenIsAnError) {
  checkpoint::FaultyFileSystem faulty(folder_.files, 0, true);
  open(faulty);
  record_->on_begin(0, 1);
  const Status status = record_->on_snapshot_complete(4, {shard(4, folder_.files)});
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("No space left"));
  for (const Json& row : rows()) EXPECT_NE(row["event"], "checkpoint");
}

TEST_F(RunRecordTest, ARunIsNotDoneWithoutItsModel) {
  open();
  record_->on_begin(0, 1);
  ASSERT_TRUE(snapshot(8));
  ASSERT_TRUE(folder_.files.remove_tree(out_.checkpoints()));
  record_->on_stopped(ExitCode::kDone, "");
  EXPECT_FALSE(record_->outcome());
  EXPECT_NE(rows().back()["event"], "end");
}

TEST_F(RunRecordTest, AResumeCutsTheRowsOfStepsThatComeAgain) {
  open();
  record_->on_begin(0, 1);
  for (int64_t s = 0; s < 6; ++s) step(s, 1);
  record_.reset();
  std::ofstream(out_.metrics(), std::ios::app) << R"({"step": 8, "lo)";  // torn
  open(4);
  record_->on_begin(4, 1);
  std::vector<int64_t> steps;
  for (const Json& row : rows())
    if (!row.contains("event")) steps.push_back(row["step"]);
  EXPECT_EQ(steps, (std::vector<int64_t>{2, 4}));
  EXPECT_EQ(rows().back()["event"], "begin");
  EXPECT_EQ(rows().back()["step"], 4);
  EXPECT_THAT(log_.text(), HasSubstr("goes on after step 4 of 8 steps"));
}

TEST_F(RunRecordTest, AFolderThatIsNotThere) {
  const auto record = RunRecord::open(run_, {OutFolder(folder_.path() + "/nowhere"), 0, 8, 2, ""}, folder_.files,
                                      clock_, log_, progress_);
  ASSERT_FALSE(record);
  EXPECT_THAT(record.error().message, HasSubstr("nowhere/metrics.jsonl"));
}

TEST(RunRecord, TopKIsNamed) {
  RunFolder folder;
  std::string text = kMlp;
  const std::string loss = R"(type = "softmax_cross_entropy")";
  ASSERT_NE(text.find(loss), std::string::npos);
  text.insert(text.find(loss) + loss.size(), ", top_k = 2");
  const RunDefinition run = folder.open(text);
  ManualClock clock;
  RememberingLog log;
  observe::Progress progress(stderr, observe::ProgressMode::kNone, false);
  const OutFolder out(folder.path() + "/out");
  ASSERT_TRUE(out.create(folder.files));
  const auto record = RunRecord::open(run, {out, 0, 8, 2, "1 worker"}, folder.files, clock, log, progress);
  ASSERT_TRUE(record) << record.error().message;
  (*record)->on_begin(0, 1);
  (*record)->on_step({.step = 0, .metrics = {8, 8, 2, 6}, .rate = 0.1, .norm = std::nullopt});
  (*record)->on_eval(1, {9, 18, 9, 18});
  const auto lines = lines_of(out.metrics());
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(Json::parse(lines[1])["accuracy"], 0.25);
  EXPECT_EQ(Json::parse(lines[1])["top2_accuracy"], 0.75);
  EXPECT_EQ(Json::parse(lines[2])["top2_accuracy"], 1.0);
  EXPECT_THAT(log.text(), HasSubstr("after step 1: test loss 0.5000, accuracy 0.5000, top2_accuracy 1.0000"));
}

TEST(RunRecord, NumbersHaveNoAccuracy) {
  RunFolder folder;
  folder.write("x.npy", npy_file("<f4", "2, 2", bytes_of(std::vector<float>(4))));
  folder.write("y.npy", npy_file("<f4", "2, 1", bytes_of(std::vector<float>(2))));
  const RunDefinition run = folder.open(R"(
[data.train]
format = "npy"
inputs = "x.npy"
labels = "y.npy"
[train]
batch = 2
steps = 3
log_every = 1
[optimizer]
lr = 0.1
[network]
input = [2]
layers = [{ name = "fc", type = "linear", units = 1 }, { type = "mse" }]
)");
  ManualClock clock;
  RememberingLog log;
  observe::Progress progress(stderr, observe::ProgressMode::kNone, false);
  const auto record =
      RunRecord::open(run, {OutFolder(folder.path()), 0, 3, 1, "1 worker"}, folder.files, clock, log, progress);
  ASSERT_TRUE(record) << record.error().message;
  (*record)->on_begin(0, 1);
  (*record)->on_step({.step = 0, .metrics = {4, 2, 0}, .rate = 0.1, .norm = std::nullopt});
  (*record)->on_eval(1, {6, 2, 0});
  const auto lines = lines_of(folder.path() + "/metrics.jsonl");
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(Json::parse(lines[1])["loss"], 2.0);
  EXPECT_EQ(Json::parse(lines[2])["loss"], 3.0);
  for (const std::string& line : lines) EXPECT_FALSE(Json::parse(line).contains("accuracy"));
}

}  // namespace
}  // namespace dtrain::node
