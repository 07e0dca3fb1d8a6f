// What a shard server has counted since it was made.
#pragma once

#include <cstdint>

namespace dtrain::ps {

struct ShardCounters {
  uint64_t duplicates = 0;   // chunks and offers of what was known
  uint64_t late = 0;         // of these, what the mode dropped
  uint64_t ignored = 0;      // of a step that this server has not reached, or chunks that nobody asked for
  uint64_t bytes_taken = 0;  // payloads that entered a sum
  uint64_t commits = 0;      // of blocks
};

}  // namespace dtrain::ps
