#include "checkpoint/model_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/checkpoint/faulty_file_system.h"
#include "tests/checkpoint/sample_state.h"
#include "tests/temporary_directory.h"

namespace dtrain::checkpoint {
namespace {

using ::testing::HasSubstr;

class ModelFileTest : public ::testing::Test {
 protected:
  LogicalReader save(const SampleState& state, int64_t servers) {
    std::filesystem::remove_all(root_);
    EXPECT_TRUE(state.save(folder_, servers));
    return LogicalReader::open(files_, folder_.path_of(state.step)).value();
  }
  std::vector<ModelTensor> tensors(const SampleState& state) {
    return {{"fc@1.weight", DType::kF32, Shape{2, 5}, std::as_bytes(std::span(state.weight))},
            {"bn.mean", DType::kF64, Shape{2}, std::as_bytes(std::span(state.mean))}};
  }

  RealFileSystem disk_;
  FaultyFileSystem files_{disk_};
  NullLog log_;
  TemporaryDirectory directory_;
  std::string root_ = directory_.path() + "/checkpoints", path_ = directory_.path() + "/model.safetensors";
  CheckpointFolder folder_{files_, root_, log_};
};

TEST_F(ModelFileTest, HashIsTheSameForCheckpointFileAndMemory) {
  const SampleState state(10);
  auto checkpoint = save(state, 3);
  ASSERT_TRUE(write_model(files_, path_, checkpoint));
  const std::string from_checkpoint = files_.read_file(path_, 1 << 20).value();
  ASSERT_TRUE(write_model(files_, path_, tensors(state)));
  EXPECT_EQ(files_.read_file(path_, 1 << 20).value(), from_checkpoint);
  auto file = SafetensorsReader::open(files_, path_).value();
  EXPECT_EQ(model_hash(file).value(), model_hash(checkpoint).value());
  EXPECT_EQ(model_hash(file).value(), model_hash(tensors(state)));
  EXPECT_NE(model_hash(file).value(), model_hash(tensors(SampleState(11))));
}

TEST_F(ModelFileTest, ASlotInPlaceOfTheValues) {
  const SampleState state(10);
  auto checkpoint = save(state, 3);
  ASSERT_TRUE(write_model(files_, path_, checkpoint, "momentum#"));
  const std::string written = files_.read_file(path_, 1 << 20).value();
  SampleState other(10);
  other.weight = other.momentum;
  ASSERT_TRUE(write_model(files_, path_, tensors(other)));
  EXPECT_EQ(files_.read_file(path_, 1 << 20).value(), written) << "the statistic has no slot, and is there itself";
}

TEST_F(ModelFileTest, StateHashFollowsSlotsAndStepButNotTheSharding) {
  SampleState state(10);
  const Digest one = state_hash(save(state, 1)).value();
  EXPECT_EQ(one, state_hash(save(state, 3)).value());
  state.momentum[4] += 1;
  EXPECT_NE(one, state_hash(save(state, 1)).value());
  state.momentum[4] -= 1;
  state.step = 11;
  EXPECT_NE(one, state_hash(save(state, 1)).value());
  state.step = 10;
  EXPECT_EQ(one, state_hash(save(state, 1)).value());
}

TEST_F(ModelFileTest, TensorsAreReadByNameTypeAndShape) {
  const SampleState state(10);
  ASSERT_TRUE(write_model(files_, path_, tensors(state)));
  auto file = SafetensorsReader::open(files_, path_).value();
  std::vector<float> weight(10);
  const auto into = std::as_writable_bytes(std::span(weight));
  ASSERT_TRUE(read_model_tensor(file, "fc@1.weight", DType::kF32, Shape{2, 5}, into));
  EXPECT_EQ(weight, state.weight);
  EXPECT_THAT(read_model_tensor(file, "fc@1.weight", DType::kF32, Shape{5, 2}, into).error().message,
              HasSubstr("F32 [2, 5], the network has F32 [5, 2]"));
  EXPECT_THAT(read_model_tensor(file, "fc@1.wight", DType::kF32, Shape{2, 5}, into).error().message,
              HasSubstr("did you mean 'fc@1.weight'?"));
}

TEST_F(ModelFileTest, ReadsWhatOthersWrote) {
  const std::string json =
      R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[8,12]},"n":{"dtype":"I64","shape":[],"data_offsets":[0,8]}})";
  std::string bytes(8, '\0');
  store_le<uint64_t>(bytes.data(), json.size());
  ASSERT_TRUE(files_.replace_file(path_, bytes + json + std::string(12, '\1')));
  auto file = SafetensorsReader::open(files_, path_).value();
  const std::string ones(8, '\1');
  const std::vector<ModelTensor> same = {{"w", DType::kF32, Shape{1}, std::as_bytes(std::span(ones.data(), 4))},
                                         {"n", DType::kI64, Shape{}, std::as_bytes(std::span(ones.data(), 8))}};
  EXPECT_EQ(model_hash(file).value(), model_hash(same));
}

}  // namespace
}  // namespace dtrain::checkpoint
