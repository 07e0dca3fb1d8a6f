// How often operator new was called in this process: allocation_count.cc replaces it.
#pragma once

#include <cstdint>

namespace dtrain::graph {

int64_t allocation_count();

}  // namespace dtrain::graph
