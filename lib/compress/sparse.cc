#include "compress/sparse.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "base/check.h"
#include "base/vectorize.h"

namespace dtrain::compress {
namespace {

uint32_t magnitude(float x) { return std::bit_cast<uint32_t>(x) & 0x7fffffffu; }

constexpr uint32_t kShift = 20;  // bins by exponent and three bits of the fraction
constexpr size_t kLeastSent = 64;
constexpr size_t kBins = 1 << (31 - kShift);

// The largest of sixteen lanes' worth of magnitudes, to skip what holds nothing.
DTRAIN_CLONES uint32_t largest_magnitude(const float* values, size_t n) {
  uint32_t most = 0;
  for (size_t i = 0; i < n; ++i) {
    const uint32_t m = std::bit_cast<uint32_t>(values[i]) & 0x7fffffffu;
    most = m > most ? m : most;
  }
  return most;
}

// How many elements lie in each bin. Four tables: neighbours often share a bin.
std::vector<uint32_t> count_bins(std::span<const float> values) {
  std::vector<uint32_t> bins(4 * kBins);
  uint32_t* const b = bins.data();
  size_t i = 0;
  for (; i + 4 <= values.size(); i += 4)
    for (size_t l = 0; l < 4; ++l) ++b[l * kBins + (magnitude(values[i + l]) >> kShift)];
  for (; i < values.size(); ++i) ++b[magnitude(values[i]) >> kShift];
  for (size_t k = 0; k < kBins; ++k) b[k] += b[kBins + k] + b[2 * kBins + k] + b[3 * kBins + k];
  bins.resize(kBins);
  return bins;
}

class SparseCodec final : public Codec {
 public:
  std::string name() const override { return "sparse"; }
  CodecId id() const override { return CodecId::kSparse; }
  bool valid(ByteSpan payload, size_t n) const override {
    if (payload.size() < 4 || n > kMostSparseElements) return false;
    const size_t count = load_le<uint32_t>(payload.data());
    if (count > n || payload.size() != sparse_bytes(count)) return false;
    const std::byte* const places = payload.data() + 4;
    int64_t last = -1;
    for (size_t i = 0; i < count; ++i) {
      const int64_t place = load_le<uint16_t>(places + 2 * i);
      if (place <= last) return false;
      last = place;
    }
    return last < static_cast<int64_t>(n);
  }
  void decode(ByteSpan payload, std::span<float> out) const override {
    std::ranges::fill(out, 0.0f);
    each(payload, [&](size_t place, float value) { out[place] = value; });
  }
  void decode_add(ByteSpan payload, std::span<float> into) const override {
    each(payload, [&](size_t place, float value) { into[place] += value; });
  }

 private:
  template <typename Do>
  static void each(ByteSpan payload, Do&& act) {
    const size_t count = load_le<uint32_t>(payload.data());
    const std::byte *const places = payload.data() + 4, *const values = places + 2 * count;
    for (size_t i = 0; i < count; ++i) act(load_le<uint16_t>(places + 2 * i), load_le<float>(values + 4 * i));
  }
};

const SparseCodec codec;
[[maybe_unused]] const bool registered = register_codec(codec);

}  // namespace

const Codec& sparse_codec() { return codec; }

size_t sparse_count(size_t n, double ratio) {
  const auto count = static_cast<size_t>(std::ceil(ratio * static_cast<double>(n)));
  return std::min(std::max(count, kLeastSent), n);
}

std::vector<uint16_t> largest(std::span<const float> values, size_t count) {
  DTRAIN_CHECK(count > 0 && count <= values.size() && values.size() <= kMostSparseElements);
  // The bin in which the last one lies: what is in higher bins is chosen, of it the largest.
  const std::vector<uint32_t> bins = count_bins(values);
  size_t bin = kBins, above = 0;
  while (above + bins[bin - 1] < count) above += bins[--bin];
  --bin;
  const uint32_t least = static_cast<uint32_t>(bin) << kShift;

  // One number that orders by magnitude, then by place, the first ahead.
  const auto order = [&](size_t i) { return uint64_t{magnitude(values[i])} << 16 | (0xffff - i); };
  std::vector<uint64_t> in_bin;
  in_bin.reserve(bins[bin]);
  std::vector<uint16_t> chosen;
  chosen.reserve(above + bins[bin]);
  constexpr size_t kRun = 64;
  for (size_t first = 0; first < values.size(); first += kRun) {
    const size_t n = std::min(kRun, values.size() - first);
    if (largest_magnitude(values.data() + first, n) < least) continue;
    for (size_t i = first; i < first + n; ++i) {
      const uint32_t m = magnitude(values[i]);
      if (m < least) continue;
      chosen.push_back(static_cast<uint16_t>(i));
      if (m >> kShift == bin) in_bin.push_back(order(i));
    }
  }
  const auto last = in_bin.begin() + static_cast<ptrdiff_t>(count - above - 1);
  std::nth_element(in_bin.begin(), last, in_bin.end(), std::greater<>());
  std::erase_if(chosen, [&, cut = *last](uint16_t i) { return order(i) < cut; });
  return chosen;
}

size_t write_sparse(std::span<const uint16_t> places, const float* values, MutableByteSpan out) {
  store_le(out.data(), static_cast<uint32_t>(places.size()));
  std::byte* at = out.data() + 4;
  std::memcpy(at, places.data(), places.size_bytes());
  at += places.size_bytes();
  for (size_t i = 0; i < places.size(); ++i) store_le(at + 4 * i, values[places[i]]);
  return sparse_bytes(places.size());
}

}  // namespace dtrain::compress
