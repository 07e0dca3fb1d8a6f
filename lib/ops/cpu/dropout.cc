// dropout and its backward are the same map: the mask is drawn again instead of being kept.
#include <array>
#include <bit>
#include <cmath>
#include <utility>

#include "base/philox.h"
#include "base/vectorize.h"
#include "ops/cpu/own_kernel.h"
#include "ops/elementwise.h"
#include "ops/registry.h"

namespace dtrain::ops::cpu {
namespace {

constexpr int64_t kGroups = 64;          // groups of four words that are drawn together
constexpr int64_t kBlock = 4 * kGroups;  // elements
constexpr int64_t kChunk = 16 * kBlock;  // elements of one piece of work

// Words of the groups first … first + kGroups − 1, as base/philox.h defines them; lanes are groups.
DTRAIN_CLONES
void draw(uint64_t first, const std::array<uint32_t, 2>& key, uint32_t a, uint32_t b, uint32_t* words) {
  const uint32_t key0 = key[0], key1 = key[1];
#pragma omp simd
  for (int64_t g = 0; g < kGroups; ++g) {
    const uint64_t group = first + static_cast<uint64_t>(g);
    uint32_t c0 = static_cast<uint32_t>(group), c1 = static_cast<uint32_t>(group >> 32), c2 = a, c3 = b;
    const auto round = [&](uint32_t k0, uint32_t k1) __attribute__((always_inline)) {
      const uint64_t p0 = static_cast<uint64_t>(0xd2511f53u) * c0, p1 = static_cast<uint64_t>(0xcd9e8d57u) * c2;
      c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
      c1 = static_cast<uint32_t>(p1);
      c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
      c3 = static_cast<uint32_t>(p0);
    };
    // Written out: a loop in a loop would not vectorise.
    [&]<uint32_t... R>(std::integer_sequence<uint32_t, R...>) __attribute__((always_inline)) {
      (round(key0 + R * 0x9e3779b9u, key1 + R * 0xbb67ae85u), ...);
    }
    (std::make_integer_sequence<uint32_t, 10>());
    words[4 * g] = c0;
    words[4 * g + 1] = c1;
    words[4 * g + 2] = c2;
    words[4 * g + 3] = c3;
  }
}

DTRAIN_CLONES
void apply(const float* x, const uint32_t* words, uint32_t threshold, float scale, float* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t mask = (words[i] >> 8) >= threshold ? ~0u : 0u;  // a mask: no branch around the load of x
    y[i] = std::bit_cast<float>(std::bit_cast<uint32_t>(x[i] * scale) & mask);
  }
}

class DropoutKernel final : public OwnKernel {
 public:
  explicit DropoutKernel(const OpRequest& request)
      : OwnKernel(request), stream_(request.attributes_as<Dropout>().stream) {
    const double rate = request.attributes_as<Dropout>().rate;
    DTRAIN_CHECK(rate >= 0.0 && rate <= 1.0, "a dropout rate of {}", rate);
    // uniform01(word) ≥ rate, with (word >> 8)·2⁻²⁴ and rate·2²⁴ both exact.
    threshold_ = static_cast<uint32_t>(std::ceil(rate * 0x1.0p24));
    scale_ = rate < 1.0 ? static_cast<float>(1.0 / (1.0 - rate)) : 0.0f;
    samples_ = request.inputs[0].shape[0];
    per_sample_ = samples_ ? request.inputs[0].shape.elements() / samples_ : 0;
    in_place = {{0, 0}};
  }

  static std::optional<std::string> unsupported(const OpRequest&) { return std::nullopt; }

  void run(std::span<const void* const> in, std::span<void* const> out, void*, const RunContext& context) override {
    const int64_t chunks = (per_sample_ + kChunk - 1) / kChunk;
    const int64_t grain = kGrain / std::max<int64_t>(1, std::min(kChunk, per_sample_));
    const std::array<uint32_t, 2> key{static_cast<uint32_t>(context.seed),
                                      static_cast<uint32_t>(context.seed >> 32) ^ stream_};
    for_pieces(samples_ * chunks, grain, [&](int64_t begin, int64_t end) {
      alignas(64) uint32_t words[kBlock];
      for (int64_t piece = begin; piece < end; ++piece) {
        const int64_t sample = piece / chunks, first = piece % chunks * kChunk;
        const int64_t last = std::min(first + kChunk, per_sample_);
        for (int64_t e = first; e < last; e += kBlock) {
          draw(static_cast<uint64_t>(e / 4), key, static_cast<uint32_t>(context.step),
               static_cast<uint32_t>(context.first_sample + sample), words);
          const int64_t at = sample * per_sample_ + e;
          apply(static_cast<const float*>(in[0]) + at, words, threshold_, scale_, static_cast<float*>(out[0]) + at,
                std::min(kBlock, last - e));
        }
      }
    });
  }

 private:
  uint32_t stream_, threshold_;
  float scale_;
  int64_t samples_, per_sample_;
};

const Registration kForward("cpu", "dropout", std::make_unique<OwnOp<DropoutKernel>>());
const Registration kBackward("cpu", "dropout.backward", std::make_unique<OwnOp<DropoutKernel>>());

}  // namespace
}  // namespace dtrain::ops::cpu
