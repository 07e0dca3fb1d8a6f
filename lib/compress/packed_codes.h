// Codes of a few bits each in 32-bit words, as the 1-bit and 2-bit codecs lay them: values come in groups of
// kLanes · 32 / kBits, of which word l holds every kLanes-th from value l on; the words of the last, shorter group are
// as few as hold it, and count in place of kLanes. Inlined into loops that are compiled for several instruction sets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/bytes.h"
#include "base/vectorize.h"

namespace dtrain::compress {

constexpr size_t kLanes = 16;  // words of a whole group

template <uint32_t kBits>
struct PackedCodes {
  static constexpr uint32_t kPerWord = 32 / kBits, kMask = (uint32_t{1} << kBits) - 1;
  static constexpr size_t kGroup = kLanes * kPerWord;

  static constexpr size_t words(size_t n) { return n / kGroup * kLanes + (n % kGroup + kPerWord - 1) / kPerWord; }

  // Whole groups: value_of(code) of each, written to `out` or added to it.
  template <bool kAdd, typename ValueOf>
  [[gnu::always_inline]] static void decode_groups(const std::byte* words, float* out, size_t groups,
                                                   const ValueOf& value_of) {
    for (size_t g = 0; g < groups; ++g, words += 4 * kLanes, out += kGroup) {
      uint32_t w[kLanes];
      std::memcpy(w, words, sizeof w);
      for (uint32_t j = 0; j < kPerWord; ++j) {
        float* const row = out + j * kLanes;
        DTRAIN_INDEPENDENT
        for (size_t l = 0; l < kLanes; ++l) {
          const float value = value_of(w[l] >> kBits * j & kMask);
          row[l] = kAdd ? row[l] + value : value;
        }
      }
    }
  }

  // What is left behind the whole groups.
  template <bool kAdd, typename ValueOf>
  static void decode_rest(const std::byte* words, std::span<float> out, const ValueOf& value_of) {
    const size_t groups = out.size() / kGroup, m = out.size() % kGroup, w = (m + kPerWord - 1) / kPerWord;
    const std::byte* const last = words + groups * 4 * kLanes;
    float* const tail = out.data() + groups * kGroup;
    for (size_t i = 0; i < m; ++i) {
      const float value = value_of(load_le<uint32_t>(last + i % w * 4) >> kBits * (i / w) & kMask);
      tail[i] = kAdd ? tail[i] + value : value;
    }
  }
};

}  // namespace dtrain::compress
