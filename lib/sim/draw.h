// A stream of random choices under a seed.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/philox.h"

namespace dtrain::sim {

class Draw {
 public:
  Draw(uint64_t seed, std::string_view purpose, uint32_t which = 0) : stream_(seed, stream_id(purpose), which, 0) {}

  // In [0, n), n > 0.
  uint32_t below(uint32_t n) { return stream_.at(drawn_++) % n; }
  // In [least, most].
  int64_t between(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(below(static_cast<uint32_t>(most - least + 1)));
  }
  bool percent(uint32_t p) { return below(100) < p; }

 private:
  Philox stream_;
  uint64_t drawn_ = 0;
};

}  // namespace dtrain::sim
