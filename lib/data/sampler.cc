#include "data/sampler.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/philox.h"

namespace dtrain::data {

std::vector<int64_t> shuffled_order(uint64_t seed, int64_t epoch, int64_t n) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  const Philox stream(seed, stream_id("shuffle"), static_cast<uint32_t>(epoch), static_cast<uint32_t>(epoch >> 32));
  // Draw i is uniform in [0, i]: the high half of 64 random bits times i + 1, uneven by less than (i + 1) / 2^64.
  Philox4 words{};
  for (uint64_t i = order.size(); i-- > 1;) {
    const uint64_t draw = order.size() - 1 - i;
    if (draw % 2 == 0) words = stream.group(draw / 2);
    const uint64_t bits = static_cast<uint64_t>(words[2 * (draw % 2) + 1]) << 32 | words[2 * (draw % 2)];
    const auto j = static_cast<uint64_t>((static_cast<unsigned __int128>(bits) * (i + 1)) >> 64);
    std::swap(order[i], order[j]);
  }
  return order;
}

Sampler::Order Sampler::order(int64_t epoch) const {
  const std::lock_guard lock(mutex_);
  if (cache_[0].epoch != epoch) std::swap(cache_[0], cache_[1]);
  if (cache_[0].epoch != epoch)
    cache_[0] = {epoch, std::make_shared<const std::vector<int64_t>>(shuffled_order(seed_, epoch, n_))};
  return cache_[0].order;
}

void Sampler::indices(int64_t first, std::span<int64_t> into) const {
  DTRAIN_CHECK(first >= 0 && n_ >= 1, "sample {} of {}", first, n_);
  while (!into.empty()) {
    const int64_t epoch = first / n_, at = first % n_;
    const auto count = static_cast<size_t>(std::min(n_ - at, static_cast<int64_t>(into.size())));
    if (shuffle_) {
      const Order permutation = order(epoch);
      std::copy_n(permutation->begin() + at, count, into.begin());
    } else {
      std::iota(into.begin(), into.begin() + static_cast<int64_t>(count), at);
    }
    into = into.subspan(count);
    first += static_cast<int64_t>(count);
  }
}

}  // namespace dtrain::data
