// How much memory this process has in use.
#pragma once

#include <cstdint>

namespace dtrain::node {

// Bytes that lie in memory now (Linux: /proc/self/statm); 0 where that cannot be read.
uint64_t resident_bytes();

}  // namespace dtrain::node
