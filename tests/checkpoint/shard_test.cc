#include "checkpoint/shard.h"

#include <gtest/gtest.h>

namespace dtrain::checkpoint {
namespace {

TEST(ShardTensorNameTest, SurvivesTheRoundTrip) {
  for (const ShardTensorName& name :
       {ShardTensorName{"conv1.weight", 0, ""}, ShardTensorName{"conv1.weight", 65536, "momentum"},
        ShardTensorName{"a@b#c%d%40", 7, "s@#%"}, ShardTensorName{"__metadata__", 1, ""}})
    EXPECT_EQ(shard_tensor_name(to_string(name)), name) << to_string(name);
  EXPECT_EQ(to_string(ShardTensorName{"w", 3, "m"}), "w@3#m");
}

TEST(ShardTensorNameTest, OtherNamesAreRefused) {
  for (const char* text : {"", "w", "w@", "w@x", "w@-1", "w@1#", "w@1x", "w@1@2", "w@1#a#b", "w#a@1", "w%@1", "w%41@1",
                           "w@99999999999999999999"})
    EXPECT_EQ(shard_tensor_name(text), std::nullopt) << text;
}

}  // namespace
}  // namespace dtrain::checkpoint
