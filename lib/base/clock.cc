#include "base/clock.h"

#include <chrono>

namespace dtrain {

Instant SteadyClock::now() const {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace dtrain
