#include "ps/block_table.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace dtrain::ps {
namespace {

std::vector<ParameterInfo> parameters() {
  return {{"conv.weight", Shape{64, 3, 3, 3}, ParameterKind::kTrainable},
          {"norm.running_mean", Shape{64}, ParameterKind::kStatistic},
          {"linear.weight", Shape{1000, 1000}, ParameterKind::kTrainable},
          {"linear.bias", Shape{1000}, ParameterKind::kTrainable}};
}

TEST(BlockTable, CutsParametersIntoBlocksAndChunks) {
  const BlockTable table(parameters(), 1);
  ASSERT_EQ(table.blocks().size(), 7u);
  for (ParameterIndex p = 0; p < 4; ++p) {
    int64_t at = 0;
    for (uint32_t id : table.of_parameter(p)) {
      const Block& block = table.block(id);
      EXPECT_EQ(block.parameter, p);
      EXPECT_EQ(block.first, at);
      int64_t sum = 0;
      for (uint32_t c = 0; c < block.chunks(); ++c) sum += block.chunk_elements(c);
      EXPECT_EQ(sum, block.elements);
      EXPECT_LE(block.chunks(), kBlockChunks);
      at += block.elements;
    }
    EXPECT_EQ(at, table.parameters()[static_cast<size_t>(p)].shape.elements());
  }
  const Block& last = table.block(5);
  EXPECT_EQ(last.elements, 1000000 - 3 * 4 * kChunkElements);
  EXPECT_EQ(last.chunk_elements(3), last.elements - 3 * kChunkElements);
  EXPECT_FALSE(last.pushed());
  EXPECT_TRUE(table.block(0).pushed());
}

TEST(BlockTable, SpreadsBlocksEvenly) {
  for (uint32_t servers = 1; servers <= 9; ++servers) {
    const BlockTable table(parameters(), servers);
    int64_t total = 0, least = INT64_MAX, most = 0;
    size_t blocks = 0;
    for (uint32_t s = 0; s < servers; ++s) {
      const int64_t elements = table.server_elements(s);
      total += elements;
      least = std::min(least, elements);
      most = std::max(most, elements);
      blocks += table.of_server(s).size();
      EXPECT_TRUE(std::is_sorted(table.of_server(s).begin(), table.of_server(s).end()));
      for (uint32_t id : table.of_server(s)) EXPECT_EQ(table.block(id).server, s);
    }
    EXPECT_EQ(total, 64 * 27 + 64 + 1000000 + 1000);
    EXPECT_EQ(blocks, table.blocks().size());
    EXPECT_LE(most - least, kChunkElements * kBlockChunks);
  }
}

// Server 0 must move with every step: its commit tells the coordinator that the step's metrics are there.
TEST(BlockTable, FrozenBlocksArePlacedLast) {
  std::vector<ParameterInfo> some = parameters();
  some[2].kind = ParameterKind::kFrozen;
  for (uint32_t servers = 1; servers <= 9; ++servers) {
    const BlockTable table(some, servers);
    EXPECT_EQ(table.block(table.of_parameter(0)[0]).server, 0u);
    int64_t least = INT64_MAX, most = 0;
    for (uint32_t s = 0; s < servers; ++s) {
      least = std::min(least, table.server_elements(s));
      most = std::max(most, table.server_elements(s));
    }
    EXPECT_LE(most - least, kChunkElements * kBlockChunks);
  }
}

TEST(BlockTable, NormsKnowOnlyTrainableChunks) {
  const BlockTable table(parameters(), 2);
  EXPECT_EQ(table.norm_chunks(), 1u + 16u + 1u);
  EXPECT_EQ(table.norm_index(0), 0u);
  EXPECT_EQ(table.norm_index(2), 1u);
  EXPECT_EQ(table.norm_index(3), 5u);
  EXPECT_EQ(table.norm_index(6), 17u);
}

}  // namespace
}  // namespace dtrain::ps
