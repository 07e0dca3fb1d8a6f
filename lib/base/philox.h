// Philox4x32-10, the counter-based random generator of Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3",
// SC 2011. Every random draw of a run is a pure function of a key and a counter, so that it does not matter which task
// makes it, or in which order.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace dtrain {

using Philox4 = std::array<uint32_t, 4>;

// Ten rounds over `counter` under `key`.
Philox4 philox4x32(Philox4 counter, std::array<uint32_t, 2> key);

// A stream of draws for one purpose: `seed` of the run, `stream` says what is drawn (see stream_id), `a` and `b`
// address within it (an epoch, a step, a sample's place …). at(i) is the i-th word, words come in groups of four.
class Philox {
 public:
  Philox(uint64_t seed, uint32_t stream, uint32_t a, uint32_t b)
      : key_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32) ^ stream}, a_(a), b_(b) {}

  // Words 4·group … 4·group+3 of this stream.
  Philox4 group(uint64_t group) const {
    return philox4x32({static_cast<uint32_t>(group), static_cast<uint32_t>(group >> 32), a_, b_}, key_);
  }
  uint32_t at(uint64_t i) const { return group(i / 4)[i % 4]; }

 private:
  std::array<uint32_t, 2> key_;
  uint32_t a_, b_;
};

// 32 bits that name a purpose or a parameter ("dropout/fc1", "init/conv1.weight"): FNV-1a of the text.
uint32_t stream_id(std::string_view name);

// Uniform in [0, 1) with 24 bits, exactly representable in fp32.
inline float uniform01(uint32_t word) { return static_cast<float>(word >> 8) * 0x1.0p-24f; }

// Standard normal deviate from one word by inverting the distribution function with basic arithmetic only (no libm,
// whose rounding differs between hosts): Wichura, algorithm AS 241 (PPND16), Applied Statistics 37 (1988).
float standard_normal(uint32_t word);

}  // namespace dtrain
