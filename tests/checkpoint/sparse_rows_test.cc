// Sparse tables in checkpoints and model files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/logical_reader.h"
#include "checkpoint/model_file.h"
#include "tests/temporary_directory.h"

namespace dtrain::checkpoint {
namespace {

using testing::HasSubstr;

constexpr int64_t kWidth = 3;

// What one server keeps of the table.
struct Kept {
  std::vector<int64_t> rows;
  std::vector<float> values, moments;

  explicit Kept(std::vector<int64_t> which) : rows(std::move(which)) {
    for (int64_t row : rows)
      for (int64_t c = 0; c < kWidth; ++c) {
        values.push_back(static_cast<float>(row * 10 + c));
        moments.push_back(-values.back());
      }
  }
};

class SparseRowsTest : public testing::Test {
 protected:
  Result<LogicalReader> open(const std::vector<Kept>& servers, const std::string& slot = "momentum") {
    std::filesystem::remove_all(root_);
    Manifest m;
    m.step = 10;
    m.micro_batches = m.threads = 1;
    m.parameters = {{"t", Shape{1000, kWidth}, DType::kF32, ParameterKind::kSparse},
                    {"t-2", Shape{2}, DType::kF32, ParameterKind::kParameter}};
    m.slots = {"momentum"};
    const std::vector<float> dense{1, 2};
    const auto bytes = std::as_bytes(std::span(dense));
    for (size_t s = 0; s < servers.size(); ++s) {
      std::vector<ShardBlock> blocks;
      if (s == 0) blocks.push_back({"t-2", 0, DType::kF32, bytes, {{"momentum", bytes}}});
      const Kept& kept = servers[s];
      const ShardRows rows{"t", kWidth, kept.rows, kept.values, {{slot, kept.moments}}};
      m.files.push_back(folder_.write_shard(10, static_cast<int64_t>(s), blocks, {&rows, 1}).value());
    }
    EXPECT_TRUE(folder_.commit(m));
    return LogicalReader::open(files_, folder_.path_of(10));
  }
  std::string refusal(const std::vector<Kept>& servers, const std::string& slot = "momentum") {
    const auto reader = open(servers, slot);
    EXPECT_FALSE(reader);
    return reader ? "" : reader.error().message;
  }

  RealFileSystem files_;
  NullLog log_;
  TemporaryDirectory directory_;
  std::string root_ = directory_.path() + "/checkpoints";
  CheckpointFolder folder_{files_, root_, log_};
};

TEST_F(SparseRowsTest, AreReadInOrderWhoeverKeptThem) {
  const auto reader = open({Kept({5, 7, 900}), Kept({}), Kept({0, 6, 999})});
  ASSERT_TRUE(reader) << reader.error().message;
  ASSERT_EQ(reader->rows("t"), 6);
  const std::vector<int64_t> all{0, 5, 6, 7, 900, 999};
  for (int64_t first = 0; first < 6; ++first)
    for (int64_t count = 0; first + count <= 6; ++count) {
      std::vector<int64_t> rows(static_cast<size_t>(count));
      reader->read_rows("t", first, rows);
      const Kept expected(std::vector<int64_t>(all.begin() + first, all.begin() + first + count));
      EXPECT_EQ(rows, expected.rows);
      std::vector<float> values(rows.size() * kWidth);
      ASSERT_TRUE(reader->read_row_values("t", "", first, values));
      EXPECT_EQ(values, expected.values);
      ASSERT_TRUE(reader->read_row_values("t", "momentum", first, values));
      EXPECT_EQ(values, expected.moments);
    }
}

TEST_F(SparseRowsTest, HashesDoNotDependOnTheServers) {
  const auto one = open({Kept({0, 5, 6, 7, 900, 999})});
  const std::string model = to_hex(*model_hash(*one)), state = to_hex(*state_hash(*one));
  ASSERT_TRUE(write_model(files_, directory_.path() + "/model.safetensors", *one));
  const auto file = SafetensorsReader::open(files_, directory_.path() + "/model.safetensors");
  ASSERT_TRUE(file);
  EXPECT_EQ(to_hex(*model_hash(*file)), model);
  ASSERT_NE(file->find("t.rows"), nullptr);
  EXPECT_EQ(file->find("t.rows")->dtype, DType::kI64);
  EXPECT_EQ(file->find("t.values")->shape, (Shape{6, kWidth}));
  const auto three = open({Kept({5, 7, 900}), Kept({}), Kept({0, 6, 999})});
  EXPECT_EQ(to_hex(*model_hash(*three)), model);
  EXPECT_EQ(to_hex(*state_hash(*three)), state);
  const auto other = open({Kept({5, 7, 900}), Kept({0, 6})});
  EXPECT_NE(to_hex(*model_hash(*other)), model);
}

TEST_F(SparseRowsTest, WhatCannotBeIsRefused) {
  EXPECT_THAT(refusal({Kept({5}), Kept({4, 5})}), HasSubstr("hold 5 a second time"));
  EXPECT_THAT(refusal({Kept({7, 6})}), HasSubstr("hold 6 where it cannot be"));
  EXPECT_THAT(refusal({Kept({6, 6})}), HasSubstr("hold 6 where it cannot be"));
  EXPECT_THAT(refusal({Kept({1000})}), HasSubstr("hold 1000 where it cannot be"));
  EXPECT_THAT(refusal({Kept({-1})}), HasSubstr("hold -1 where it cannot be"));
  EXPECT_THAT(refusal({Kept({1})}, "other"), HasSubstr("which the manifest does not list"));
}

TEST_F(SparseRowsTest, NamesOfTheirTensorsAreTheirOwn) {
  using Part = ShardTensorName::Part;
  for (const ShardTensorName& name :
       {ShardTensorName{"a@b", 0, "", Part::kRows}, ShardTensorName{"a", 0, "m#", Part::kValues},
        ShardTensorName{"a", 0, "", Part::kValues}, ShardTensorName{"a", 7, "m", Part::kElements}})
    EXPECT_EQ(shard_tensor_name(to_string(name)), name) << to_string(name);
  EXPECT_EQ(to_string(ShardTensorName{"t", 0, "", Part::kRows}), "t@rows");
  EXPECT_EQ(shard_tensor_name("t@rows#m"), std::nullopt);
  EXPECT_EQ(shard_tensor_name("t@row"), std::nullopt);
}

}  // namespace
}  // namespace dtrain::checkpoint
