#include "checkpoint/logical_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/checkpoint/faulty_file_system.h"
#include "tests/checkpoint/sample_state.h"
#include "tests/temporary_directory.h"

namespace dtrain::checkpoint {
namespace {

using ::testing::HasSubstr;

class LogicalReaderTest : public ::testing::Test {
 protected:
  // Commits these blocks, as a server would write them, and opens the result.
  Result<LogicalReader> open(const std::vector<std::vector<ShardBlock>>& servers, int64_t written_step = 10) {
    std::vector<ManifestFile> files;
    for (size_t s = 0; s < servers.size(); ++s) {
      files.push_back(folder_.write_shard(10, static_cast<int64_t>(s), servers[s]).value());
      if (written_step != 10)
        files.back() =
            write_shard(files_, root_ + "/.tmp-step-00000010", written_step, static_cast<int64_t>(s), servers[s])
                .value();
    }
    EXPECT_TRUE(folder_.commit(state_.manifest(files)));
    return LogicalReader::open(files_, folder_.path_of(10));
  }
  std::string refusal(const std::vector<std::vector<ShardBlock>>& servers, int64_t written_step = 10) {
    auto reader = open(servers, written_step);
    EXPECT_FALSE(reader);
    return reader ? "" : reader.error().message;
  }

  RealFileSystem disk_;
  FaultyFileSystem files_{disk_};
  NullLog log_;
  TemporaryDirectory directory_;
  std::string root_ = directory_.path() + "/checkpoints";
  CheckpointFolder folder_{files_, root_, log_};
  SampleState state_{10};
};

TEST_F(LogicalReaderTest, ReadsAnyRangeHoweverItIsSharded) {
  for (int64_t servers : {1, 2, 3, 5}) {
    std::filesystem::remove_all(root_);
    std::vector<std::vector<ShardBlock>> blocks;
    for (int64_t s = 0; s < servers; ++s) blocks.push_back(state_.blocks_of(s, servers));
    auto reader = open(blocks).value();
    EXPECT_TRUE(state_.is_in(reader));
    for (size_t first = 0; first < 10; ++first)
      for (size_t count = 0; first + count <= 10; ++count) {
        std::vector<float> got(count);
        ASSERT_TRUE(reader.read("fc@1.weight", "momentum#", static_cast<int64_t>(first),
                                std::as_writable_bytes(std::span(got))));
        EXPECT_TRUE(std::equal(got.begin(), got.end(), state_.momentum.begin() + static_cast<int64_t>(first)));
      }
  }
}

TEST_F(LogicalReaderTest, UnknownNamesAndRangesAreErrors) {
  auto reader = open({state_.blocks_of(0, 1)}).value();
  std::vector<float> two(2);
  const auto into = std::as_writable_bytes(std::span(two));
  EXPECT_THAT(reader.read("fc@1.wieght", "", 0, into).error().message, HasSubstr("did you mean 'fc@1.weight'?"));
  EXPECT_THAT(reader.read("fc@1.weight", "momentum", 0, into).error().message, HasSubstr("did you mean 'momentum#'?"));
  for (int64_t first : {int64_t{9}, int64_t{-1}, INT64_MAX})
    EXPECT_THAT(reader.read("fc@1.weight", "", first, into).error().message, HasSubstr("has 10 elements")) << first;
}

TEST_F(LogicalReaderTest, MissingPartsAreRefused) {
  auto blocks = state_.blocks_of(0, 1);
  blocks.erase(blocks.begin() + 1);
  EXPECT_THAT(refusal({blocks}), HasSubstr("something is missing at element 3"));
}

TEST_F(LogicalReaderTest, AMissingEndIsRefused) {
  auto blocks = state_.blocks_of(0, 1);
  blocks.erase(blocks.begin() + 3);
  EXPECT_THAT(refusal({blocks}), HasSubstr("holds 9 of the 10 elements"));
}

TEST_F(LogicalReaderTest, AMissingSlotIsRefused) {
  auto blocks = state_.blocks_of(0, 1);
  for (ShardBlock& b : blocks) b.slots.clear();
  EXPECT_THAT(refusal({blocks}), HasSubstr("slot 'momentum#'"));
}

TEST_F(LogicalReaderTest, WhatIsHeldTwiceIsRefused) {
  EXPECT_THAT(refusal({state_.blocks_of(0, 1), state_.blocks_of(0, 2)}), HasSubstr("held twice at element 0"));
}

TEST_F(LogicalReaderTest, UnlistedTensorsAreRefused) {
  auto blocks = state_.blocks_of(0, 1);
  blocks.push_back({"other", 0, DType::kF32, std::as_bytes(std::span(state_.weight)), {}});
  EXPECT_THAT(refusal({blocks}), HasSubstr("'other@0', which the manifest does not list"));
}

TEST_F(LogicalReaderTest, SlotsOfStatisticsAreRefused) {
  auto blocks = state_.blocks_of(0, 1);
  blocks.back().slots = {{"momentum#", blocks.back().value}};
  EXPECT_THAT(refusal({blocks}), HasSubstr("statistics have no slots"));
}

TEST_F(LogicalReaderTest, TooManyElementsAndOtherTypesAreRefused) {
  auto blocks = state_.blocks_of(0, 1);
  blocks.back() = {"bn.mean", 0, DType::kF64, std::as_bytes(std::span(state_.weight)), {}};
  EXPECT_THAT(refusal({blocks}), HasSubstr("more than its 2 elements"));
  std::filesystem::remove_all(root_);
  blocks.back() = {"bn.mean", 0, DType::kF32, std::as_bytes(std::span(state_.mean)), {}};
  EXPECT_THAT(refusal({blocks}), HasSubstr("a flat list of F64 is expected"));
}

TEST_F(LogicalReaderTest, ShardsOfAnotherStepAreRefused) {
  EXPECT_THAT(refusal({state_.blocks_of(0, 1)}, 20), HasSubstr("is of step 20, the manifest beside it of step 10"));
}

}  // namespace
}  // namespace dtrain::checkpoint
