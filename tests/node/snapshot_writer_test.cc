#include "node/snapshot_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/checkpoint/faulty_file_system.h"
#include "tests/node/run_text.h"
#include "tests/node/written_shards.h"

namespace dtrain::node {
namespace {

using testing::HasSubstr;

class SnapshotWriterTest : public testing::Test {
 protected:
  SnapshotWriterTest()
      : table_({{"w", Shape{10}, ParameterKind::kTrainable}, {"mean", Shape{3}, ParameterKind::kStatistic}}, 1) {}

  std::unique_ptr<SnapshotWriter> writer(FileSystem& files, uint32_t server = 0) {
    return std::make_unique<SnapshotWriter>(table_, server, std::vector<std::string>{"momentum"}, files, log_,
                                            done_.wake());
  }
  ps::ShardState state(int64_t version) const {
    ps::ShardState state;
    state.version = version;
    for (uint32_t id = 0; id < 2; ++id) {
      auto values = std::make_shared<Buffer>(static_cast<size_t>(table_.block(id).elements) * sizeof(float));
      for (float& x : values->as<float>()) x = static_cast<float>(version);
      ps::ShardState::BlockCopy copy{id, values, {}};
      if (id == 0) {
        copy.slots.emplace_back(values->size());
        copy.slots[0].zero();
      }
      state.blocks.push_back(std::move(copy));
    }
    return state;
  }
  std::string checkpoints() const { return folder_.path() + "/checkpoints"; }
  // The shard in the folder of a step, which is not committed yet.
  std::string written(int64_t version) const {
    return bytes_of(fmt::format("{}/.tmp-step-{:08}/server-0.safetensors", checkpoints(), version));
  }

  RunFolder folder_;
  ps::BlockTable table_;
  RememberingLog log_;
  WrittenShards done_;
};

TEST_F(SnapshotWriterTest, OneAfterTheOther) {
  const auto w = writer(folder_.files);
  EXPECT_TRUE(w->take_done().empty());
  for (int64_t version : {3, 4, 5}) w->snapshot({version, checkpoints()}, state(version));
  for (int64_t version : {3, 4, 5}) {
    const WrittenShard shard = done_.wait_for(*w);
    EXPECT_EQ(shard.done.version, version);
    EXPECT_EQ(shard.done.error, "");
    EXPECT_EQ(shard.done.file, "server-0.safetensors");
    EXPECT_FALSE(shard.bytes);
    const std::string file = written(version);
    EXPECT_EQ(shard.done.bytes, file.size());
    EXPECT_EQ(shard.done.sha256, sha256(file));
  }
  EXPECT_TRUE(w->take_done().empty());
}

TEST_F(SnapshotWriterTest, AFullDiskIsSaidAndTheNextIsTried) {
  checkpoint::FaultyFileSystem faulty(folder_.files, 0);
  const auto w = writer(faulty);
  w->snapshot({3, checkpoints()}, state(3));
  const WrittenShard failed = done_.wait_for(*w);
  EXPECT_EQ(failed.done.version, 3);
  EXPECT_THAT(failed.done.error, HasSubstr("No space left on device"));
  w->snapshot({4, checkpoints()}, state(4));
  EXPECT_EQ(done_.wait_for(*w).done.error, "");
}

TEST_F(SnapshotWriterTest, EndsWithOrdersLeft) {
  const auto w = writer(folder_.files);
  for (int64_t version = 0; version < 50; ++version) w->snapshot({version, checkpoints()}, state(version));
}

TEST_F(SnapshotWriterTest, AServerOnAnotherDiskHasItsShardAsBytesForTheCoordinatorToWrite) {
  const auto far = writer(folder_.files);
  far->set_coordinator(0xabcd);
  far->snapshot({3, checkpoints()}, state(3));
  const WrittenShard sent = done_.wait_for(*far);
  ASSERT_EQ(sent.done.error, "");
  ASSERT_TRUE(sent.bytes);
  EXPECT_EQ(sent.done.sha256, sha256(*sent.bytes));
  EXPECT_EQ(written(3), "") << "nothing on the own disk";

  const auto coordinator = writer(folder_.files, 1);
  coordinator->put(checkpoints(), 3, 0, *sent.bytes);
  const WrittenShard put = done_.wait_for(*coordinator);
  EXPECT_EQ(put.server, 0u);
  EXPECT_EQ(put.done, sent.done);
  EXPECT_EQ(written(3), *sent.bytes);
}

TEST_F(SnapshotWriterTest, WhoSeesTheMarkWritesItself) {
  ASSERT_TRUE(folder_.files.make_directories(checkpoints()));
  ASSERT_TRUE(folder_.files.replace_file(disk_mark(checkpoints(), 0xabcd), ""));
  const auto w = writer(folder_.files);
  w->set_coordinator(0xabcd);
  w->snapshot({3, checkpoints()}, state(3));
  EXPECT_FALSE(done_.wait_for(*w).bytes);
  EXPECT_NE(written(3), "");
  w->set_coordinator(0xabce);  // another life of the coordinator
  w->snapshot({4, checkpoints()}, state(4));
  EXPECT_TRUE(done_.wait_for(*w).bytes);
}

}  // namespace
}  // namespace dtrain::node
