// lrn, lrn.backward on whatever layout an image has. Work is cut into tiles that hold all channels of a few positions:
// of one where channels lie side by side, of neighbouring ones in the plain layout. A tile's squares are gathered into
// a buffer with zeros before the first channel and behind the last, where a window is a sum of shifted copies; the same
// bits in every layout.
#include "ops/lrn.h"

#include <bit>
#include <cmath>

#include "base/vectorize.h"
#include "ops/cpu/image_layout.h"
#include "ops/cpu/own_kernel.h"
#include "ops/cpu/vector_math.h"
#include "ops/registry.h"

namespace dtrain::ops::cpu {
namespace {

constexpr int64_t kLanes = 16;
constexpr int64_t kTogether = 64;    // neighbouring positions of a tile in the plain layout
constexpr int64_t kMostPieces = 64;  // each has buffers of its own

// `segments` pieces of `width` elements, `stride` apart. Gathered they lie densely, and the same position of the next
// channel is `shift` further.
struct Tile {
  int64_t at, segments, width, stride, shift;
  int64_t size() const { return segments * width; }
};

struct Window {
  int64_t before, after;  // channels, no more than there are
  float weight, k, beta, slope;
  int64_t both() const { return before + after; }
};

enum class Power { kHalf, kThreeQuarters, kOne, kAny };

struct Factors {
  float power, over_scale;  // s^−β, s^(−β−1)
};

// s to a power, for normal s > 0; NaN for NaN. s = m·2ᵉ with m in [√½, √2), whose logarithm is 2·atanh((m − 1)/(m + 1))
// by its power series, with a remainder of less than a tenth of an ulp.
[[gnu::always_inline]] inline float to_power(float s, float power) {
  constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;  // products of the first with e are exact
  constexpr uint32_t kRootOfHalf = 0x3f3504f3;
  const auto bits = std::bit_cast<uint32_t>(s);
  const int32_t e = static_cast<int32_t>(bits - kRootOfHalf) >> 23;
  const float m = std::bit_cast<float>(bits - (static_cast<uint32_t>(e) << 23));
  const float t = (m - 1.0f) / (m + 1.0f), t2 = t * t;
  const float series = ((t2 * (1.0f / 9) + 1.0f / 7) * t2 + 1.0f / 5) * t2 + 1.0f / 3;
  const float mantissa = 2.0f * t + 2.0f * t * t2 * series, exponent = static_cast<float>(e);
  const float result = exponential((exponent * kLn2High + (exponent * kLn2Low + mantissa)) * power);
  return s == s ? result : s;
}

template <Power kPower>
[[gnu::always_inline]] inline Factors factors_of(float s, float beta) {
  if constexpr (kPower == Power::kOne) {
    const float inverse = 1.0f / s;
    return {inverse, inverse * inverse};
  } else if constexpr (kPower == Power::kAny) {
    const float power = to_power(s, -beta);
    return {power, power / s};
  } else {
    const float root = 1.0f / std::sqrt(s);
    const float power = kPower == Power::kHalf ? root : root * std::sqrt(root);
    return {power, power * (root * root)};
  }
}

// Calls f(i, gathered place) for every element of the tile.
template <typename F>
[[gnu::always_inline]] inline void for_tile(const Tile& tile, F f) {
  for (int64_t segment = 0; segment < tile.segments; ++segment) {
    const int64_t from = tile.at + segment * tile.stride, to = segment * tile.width;
#pragma omp simd
    for (int64_t i = 0; i < tile.width; ++i) f(from + i, to + i);
  }
}

// Zeros around a tile in `padded`, whose values begin after `before` channels.
[[gnu::always_inline]] inline void pad(const Tile& tile, int64_t before, int64_t after, float* padded) {
  std::fill(padded, padded + before * tile.shift, 0.0f);
  float* behind = padded + before * tile.shift + tile.size();
  std::fill(behind, behind + after * tile.shift + kLanes, 0.0f);
}

// Calls f(i, sums): the sums over windows of `channels` more than one for the kLanes elements from i.
template <typename F>
[[gnu::always_inline]] inline void for_windows(const Tile& tile, int64_t channels, const float* padded, F f) {
  for (int64_t i = 0; i < tile.size(); i += kLanes) {
    float sums[kLanes] = {};
    for (int64_t d = 0; d <= channels; ++d) {
      const float* x = padded + i + d * tile.shift;
#pragma omp simd
      for (int64_t l = 0; l < kLanes; ++l) sums[l] += x[l];
    }
    f(i, sums);
  }
}

template <Power kPower>
[[gnu::always_inline]] inline void factors(const Tile& tile, const Window& w, const float* x, float* padded,
                                           float* power, float* over_scale) {
  pad(tile, w.before, w.after, padded);
  float* squares = padded + w.before * tile.shift;
  for_tile(
      tile, [=](int64_t i, int64_t g) __attribute__((always_inline)) { squares[g] = x[i] * x[i]; });
  const float weight = w.weight, k = w.k, beta = w.beta;
  for_windows(
      tile, w.both(), padded, [=](int64_t i, const float* sums) __attribute__((always_inline)) {
#pragma omp simd
        for (int64_t l = 0; l < kLanes; ++l) {
          const Factors f = factors_of<kPower>(k + weight * sums[l], beta);
          power[i + l] = f.power;
          if (over_scale) over_scale[i + l] = f.over_scale;
        }
      });
}

// Elements of buffer that a tile of at most `size` needs.
int64_t padded_size(int64_t size, int64_t shift, const Window& w) { return size + w.both() * shift + kLanes; }

template <Power kPower>
[[gnu::always_inline]] inline void forward(const Tile& tile, const Window& w, const float* x, float* y, float* buffer) {
  float* power = buffer + padded_size(tile.size(), tile.shift, w);
  factors<kPower>(tile, w, x, buffer, power, nullptr);
  for_tile(
      tile, [=](int64_t i, int64_t g) __attribute__((always_inline)) { y[i] = x[i] * power[g]; });
}

template <Power kPower>
[[gnu::always_inline]] inline void backward(const Tile& tile, const Window& w, const float* x, const float* dy,
                                            float* dx, float* padded) {
  float* direct = padded + padded_size(tile.size(), tile.shift, w);
  float* through = direct + tile.size() + kLanes;
  factors<kPower>(tile, w, x, padded, direct, through);
  // A channel is in the windows of those `after` it below and `before` it above.
  pad(tile, w.after, w.before, padded);
  float* terms = padded + w.after * tile.shift;
  for_tile(
      tile, [=](int64_t i, int64_t g) __attribute__((always_inline)) {
        terms[g] = dy[i] * x[i] * through[g];
        direct[g] = dy[i] * direct[g];
      });
  const float slope = w.slope;
  for_windows(
      tile, w.both(), padded, [=](int64_t i, const float* sums) __attribute__((always_inline)) {
#pragma omp simd
        for (int64_t l = 0; l < kLanes; ++l) through[i + l] = slope * sums[l];
      });
  for_tile(
      tile, [=](int64_t i, int64_t g) __attribute__((always_inline)) { dx[i] = direct[g] - x[i] * through[g]; });
}

DTRAIN_CLONES
void forward(Power power, const Tile& tile, const Window& w, const float* x, float* y, float* buffer) {
  if (power == Power::kThreeQuarters) return forward<Power::kThreeQuarters>(tile, w, x, y, buffer);
  if (power == Power::kHalf) return forward<Power::kHalf>(tile, w, x, y, buffer);
  if (power == Power::kOne) return forward<Power::kOne>(tile, w, x, y, buffer);
  forward<Power::kAny>(tile, w, x, y, buffer);
}

DTRAIN_CLONES
void backward(Power power, const Tile& tile, const Window& w, const float* x, const float* dy, float* dx,
              float* buffer) {
  if (power == Power::kThreeQuarters) return backward<Power::kThreeQuarters>(tile, w, x, dy, dx, buffer);
  if (power == Power::kHalf) return backward<Power::kHalf>(tile, w, x, dy, dx, buffer);
  if (power == Power::kOne) return backward<Power::kOne>(tile, w, x, dy, dx, buffer);
  backward<Power::kAny>(tile, w, x, dy, dx, buffer);
}

class LrnKernel : public OwnKernel {
 public:
  explicit LrnKernel(const OpRequest& request) : OwnKernel(request) {
    const auto& a = request.attributes_as<Lrn>();
    const Shape& x = request.inputs[0].shape;
    samples_ = x[0];
    channels_ = x[1];
    positions_ = x.elements() / (x[0] * x[1]);
    if (const auto layout = image_layout_of(request.inputs[0])) {
      for (LayoutPtr& l : input_layouts) l = request.inputs[0].layout;
      outputs[0].layout = request.inputs[0].layout;
      block_ = layout->block;
      channels_ = (channels_ + block_ - 1) / block_ * block_;
    }
    const double size = static_cast<double>(a.size), alpha = static_cast<double>(a.alpha);
    window_ = {std::min(a.size / 2, x[1] - 1),
               std::min((a.size - 1) / 2, x[1] - 1),
               static_cast<float>(alpha / size),
               a.k,
               a.beta,
               static_cast<float>(2.0 * alpha * static_cast<double>(a.beta) / size)};
    power_ = a.beta == 0.75f  ? Power::kThreeQuarters
             : a.beta == 0.5f ? Power::kHalf
             : a.beta == 1.0f ? Power::kOne
                              : Power::kAny;
    together_ = block_ > 1 ? 1 : std::min(kTogether, positions_);
    tiles_ = (positions_ + together_ - 1) / together_;
    const int64_t tiles = samples_ * tiles_, size_of_tile = channels_ * together_;
    grain_ = std::max<int64_t>({kGrain / size_of_tile, (tiles + kMostPieces - 1) / kMostPieces, 1});
    // The padded values, and two numbers for each element.
    buffer_ = padded_size(size_of_tile, together_, window_) + 2 * (size_of_tile + kLanes);
    scratch_bytes = static_cast<size_t>((tiles + grain_ - 1) / grain_ * buffer_) * sizeof(float);
  }

  static std::optional<std::string> unsupported(const OpRequest&) { return std::nullopt; }

 protected:
  // f(tile, buffer).
  template <typename F>
  void for_tiles(void* scratch, F f) const {
    for_pieces(samples_ * tiles_, grain_, [&](int64_t begin, int64_t end) {
      float* buffer = static_cast<float*>(scratch) + begin / grain_ * buffer_;
      for (int64_t t = begin; t < end; ++t) f(tile(t / tiles_, t % tiles_ * together_), buffer);
    });
  }

  Window window_;
  Power power_;

 private:
  Tile tile(int64_t sample, int64_t position) const {
    const int64_t first = sample * channels_ * positions_;
    if (block_ == 1) {
      const int64_t width = std::min(together_, positions_ - position);
      return {first + position, channels_, width, positions_, width};
    }
    return {first + position * block_, channels_ / block_, block_, positions_ * block_, 1};
  }

  int64_t samples_, channels_, positions_, block_ = 1;  // channels_: stored ones; block_: those side by side
  int64_t together_, tiles_, grain_, buffer_;           // tiles_: of a sample
};

class Forward final : public LrnKernel {
 public:
  explicit Forward(const OpRequest& request) : LrnKernel(request) { in_place = {{0, 0}}; }

  void run(std::span<const void* const> in, std::span<void* const> out, void* scratch, const RunContext&) override {
    const auto* x = static_cast<const float*>(in[0]);
    auto* y = static_cast<float*>(out[0]);
    for_tiles(scratch, [&](const Tile& tile, float* buffer) { forward(power_, tile, window_, x, y, buffer); });
  }
};

class Backward final : public LrnKernel {
 public:
  explicit Backward(const OpRequest& request) : LrnKernel(request) { in_place = {{0, 1}, {0, 0}}; }

  void run(std::span<const void* const> in, std::span<void* const> out, void* scratch, const RunContext&) override {
    const auto *x = static_cast<const float*>(in[0]), *dy = static_cast<const float*>(in[1]);
    auto* dx = static_cast<float*>(out[0]);
    for_tiles(scratch, [&](const Tile& tile, float* buffer) { backward(power_, tile, window_, x, dy, dx, buffer); });
  }
};

const Registration kForward("cpu", "lrn", std::make_unique<OwnOp<Forward>>());
const Registration kBackward("cpu", "lrn.backward", std::make_unique<OwnOp<Backward>>());

}  // namespace
}  // namespace dtrain::ops::cpu
