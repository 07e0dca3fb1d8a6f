#include "checkpoint/checkpoint_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/checkpoint/faulty_file_system.h"
#include "tests/checkpoint/sample_state.h"
#include "tests/temporary_directory.h"

namespace dtrain::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RecordingLog final : public Log {
 public:
  void write(LogLevel, std::string_view message) override { text += std::string(message) + "\n"; }
  std::string text;
};

class CheckpointFolderTest : public ::testing::Test {
 protected:
  // The step of the newest checkpoint, after having compared its content; −1 for none.
  int64_t newest() {
    auto found = folder_.newest();
    EXPECT_TRUE(found) << found.error().message;
    if (!found || !*found) return -1;
    auto reader = LogicalReader::open(files_, folder_.path_of((*found)->step));
    EXPECT_TRUE(reader) << reader.error().message;
    EXPECT_TRUE(reader && SampleState((*found)->step).is_in(*reader));
    return (*found)->step;
  }
  void start_again() {
    std::filesystem::remove_all(root_);
    ASSERT_TRUE(SampleState(10).save(folder_, 2));
  }

  RealFileSystem disk_;
  FaultyFileSystem files_{disk_};
  RecordingLog log_;
  TemporaryDirectory directory_;
  std::string root_ = directory_.path() + "/checkpoints";
  CheckpointFolder folder_{files_, root_, log_};
};

TEST_F(CheckpointFolderTest, NothingWasEverCompleted) {
  EXPECT_EQ(newest(), -1);
  ASSERT_TRUE(folder_.write_shard(5, 0, SampleState(5).blocks_of(0, 1)));
  EXPECT_EQ(newest(), -1);
  EXPECT_THAT(folder_.list().value(), IsEmpty());
}

TEST_F(CheckpointFolderTest, KeepsTheNewest) {
  for (int64_t step : {100, 20, 3}) ASSERT_TRUE(SampleState(step).save(folder_, 2));
  EXPECT_THAT(folder_.list().value(), ElementsAre(3, 20, 100));
  EXPECT_EQ(newest(), 100);
  EXPECT_EQ(folder_.path_of(100), root_ + "/step-00000100");
  ASSERT_TRUE(folder_.write_shard(50, 0, {}));
  ASSERT_TRUE(folder_.prune(2, 100));
  EXPECT_THAT(files_.list(root_).value(), ElementsAre("step-00000020", "step-00000100"));
}

TEST_F(CheckpointFolderTest, PruningAfterAReplayKeepsTheOneJustCommitted) {
  for (int64_t step : {10, 20, 30}) ASSERT_TRUE(SampleState(step).save(folder_, 1));
  ASSERT_TRUE(folder_.prune(1, 20));
  EXPECT_THAT(folder_.list().value(), ElementsAre(20, 30));
}

// Every operation of a save fails once: as an error, as a kill, as a power cut. What is there afterwards is the old
// checkpoint or the new one; the save that said "done" has made the new one; and a second try succeeds.
TEST_F(CheckpointFolderTest, OldOrNewWhateverFails) {
  start_again();
  FaultyFileSystem counting(disk_);
  {
    CheckpointFolder folder(counting, root_, log_);
    ASSERT_TRUE(SampleState(20).save(folder, 2));
  }
  ASSERT_GT(counting.operations(), 25);
  int old_ones = 0, new_ones = 0;
  for (int64_t at = 0; at <= counting.operations(); ++at) {
    for (const char* fault : {"error", "kill", "power cut"}) {
      SCOPED_TRACE(fault + std::string(" at operation ") + std::to_string(at));
      start_again();
      FaultyFileSystem faulty(disk_, at, std::string(fault) != "error");
      CheckpointFolder folder(faulty, root_, log_);
      const Status saved = SampleState(20).save(folder, 2);
      if (std::string(fault) == "power cut") faulty.lose_unsynced();
      const int64_t found = newest();
      EXPECT_TRUE(found == 10 || found == 20) << found;
      EXPECT_TRUE(!saved || found == 20);
      if (!saved) {
        EXPECT_EQ(saved.error().code, ExitCode::kCheckpoint);
        EXPECT_THAT(saved.error().message, HasSubstr("No space left"));
      }
      (found == 10 ? old_ones : new_ones)++;
      EXPECT_TRUE(SampleState(20).save(folder_, 3));
      EXPECT_EQ(newest(), 20);
      EXPECT_TRUE(folder_.prune(1, 20));
      EXPECT_THAT(files_.list(root_).value(), ElementsAre("step-00000020"));
    }
  }
  EXPECT_GT(old_ones, 50);
  EXPECT_GT(new_ones, 5);
}

TEST_F(CheckpointFolderTest, PruningInterruptedAnywhereLeavesTheNewest) {
  for (int64_t at = 0; at < 20; ++at) {
    start_again();
    ASSERT_TRUE(SampleState(20).save(folder_, 2));
    FaultyFileSystem faulty(disk_, at, true);
    CheckpointFolder folder(faulty, root_, log_);
    (void)folder.prune(1, 20);
    EXPECT_EQ(newest(), 20);
    ASSERT_TRUE(folder_.prune(1, 20));
    EXPECT_THAT(files_.list(root_).value(), ElementsAre("step-00000020"));
  }
}

// Each byte of each file, one at a time, cut there and flipped there.
TEST_F(CheckpointFolderTest, DamageAtAnyByteIsNoticedAndTheOneBeforeIsUsed) {
  start_again();
  ASSERT_TRUE(SampleState(20).save(folder_, 2));
  const std::vector<std::string> names = files_.list(folder_.path_of(20)).value();
  ASSERT_EQ(names.size(), 3u);
  for (const std::string& name : names) {
    const std::string path = folder_.path_of(20) + "/" + name;
    const std::string whole = files_.read_file(path, 1 << 20).value();
    for (size_t at = 0; at < whole.size(); ++at) {
      for (bool cut : {true, false}) {
        std::string bad = cut ? whole.substr(0, at) : whole;
        if (!cut) bad[at] = static_cast<char>(bad[at] ^ 0x10);
        std::filesystem::resize_file(path, 0);
        auto file = files_.create(path).value();
        ASSERT_TRUE(file->write(std::as_bytes(std::span(bad.data(), bad.size()))));
        log_.text.clear();
        auto found = folder_.newest();
        ASSERT_TRUE(found && *found);
        ASSERT_EQ((*found)->step, 10) << name << (cut ? " cut at " : " flipped at ") << at;
        ASSERT_THAT(log_.text, HasSubstr(name));
      }
    }
    ASSERT_TRUE(files_.replace_file(path, whole));
  }
  EXPECT_EQ(newest(), 20);
}

TEST_F(CheckpointFolderTest, AllDamagedIsAnError) {
  start_again();
  ASSERT_TRUE(files_.replace_file(folder_.path_of(10) + "/server-0.safetensors", "x"));
  auto found = folder_.newest();
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error().message, HasSubstr("has 1 bytes instead of"));
}

TEST_F(CheckpointFolderTest, ADamagedOneIsReplacedByTheReplay) {
  start_again();
  ASSERT_TRUE(SampleState(20).save(folder_, 2));
  ASSERT_TRUE(files_.replace_file(folder_.path_of(20) + "/server-0.safetensors", "x"));
  EXPECT_EQ(newest(), 10);
  ASSERT_TRUE(SampleState(20).save(folder_, 1));
  EXPECT_EQ(newest(), 20);
  EXPECT_THAT(files_.list(root_).value(), ElementsAre("step-00000010", "step-00000020"));
}

TEST_F(CheckpointFolderTest, CommitWantsEveryShardAndNoOther) {
  const SampleState state(10);
  auto one = folder_.write_shard(10, 0, state.blocks_of(0, 2)).value();
  ManifestFile other{"server-1.safetensors", 8, {}};
  auto missing = folder_.commit(state.manifest({one, other}));
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, HasSubstr("lacks 'server-1.safetensors'"));
  ASSERT_TRUE(folder_.write_shard(10, 1, state.blocks_of(1, 2)));
  auto wrong = folder_.commit(state.manifest({one, other}));
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().message, HasSubstr("its server wrote 8"));
  ASSERT_TRUE(folder_.write_shard(10, 7, {}));
  ASSERT_TRUE(state.save(folder_, 2));
  EXPECT_THAT(files_.list(folder_.path_of(10)).value(),
              ElementsAre("manifest.json", "server-0.safetensors", "server-1.safetensors"));
}

TEST_F(CheckpointFolderTest, ShardsComeAsBytesToo) {
  const SampleState state(10);
  ASSERT_TRUE(folder_.write_shard(10, 0, state.blocks_of(0, 1)));
  const std::string bytes = files_.read_file(root_ + "/.tmp-step-00000010/server-0.safetensors", 1 << 20).value();
  ASSERT_TRUE(folder_.abandon(10));
  auto file = folder_.put_shard(10, 0, std::as_bytes(std::span(bytes.data(), bytes.size()))).value();
  ASSERT_TRUE(folder_.commit(state.manifest({file})));
  EXPECT_EQ(newest(), 10);
}

TEST_F(CheckpointFolderTest, AFolderOfAnotherStepIsRefused) {
  start_again();
  std::filesystem::rename(folder_.path_of(10), folder_.path_of(11));
  auto found = folder_.newest();
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error().message, HasSubstr("is of step 10, its folder says 11"));
}

}  // namespace
}  // namespace dtrain::checkpoint
