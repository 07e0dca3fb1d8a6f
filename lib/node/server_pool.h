// How much memory a shard server gives to partial sums that wait for their siblings.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ps/block_table.h"
#include "ps/tree.h"

namespace dtrain::node {

// What one block needs at least (⌈log₂ K⌉ sums), and room for 64 MiB of others, so that workers seldom wait.
inline size_t server_pool_bytes(uint32_t micro_batches) {
  const size_t block = static_cast<size_t>(ps::kBlockChunks * ps::kChunkElements) * sizeof(float);
  return (ps::fold_depth(micro_batches) + 1) * block + (size_t{64} << 20);
}

}  // namespace dtrain::node
