// group_norm, group_norm.backward on whatever layout an image has. Work is cut into units: the channels of one sample
// that hold whole groups and lie conveniently, at least one group. Sums are made by channels and then added in fp64.
#include "ops/group_norm.h"

#include <cmath>
#include <numeric>

#include "base/vectorize.h"
#include "ops/cpu/image_layout.h"
#include "ops/cpu/lane_sum.h"
#include "ops/cpu/own_kernel.h"
#include "ops/registry.h"

namespace dtrain::ops::cpu {
namespace {

constexpr int64_t kLanes = 16;
constexpr int64_t kChunk = 1024;  // positions of one sum in fp32

// Channels that lie side by side: `width` of them at each of `positions`, which are `stride` apart.
struct Strip {
  int64_t width, positions, stride;
};

// sums[c] = Σ term(c, place) over all positions; a place counts from the strip's first element.
template <typename F>
[[gnu::always_inline]] inline void channel_sums(const Strip& s, double* sums, F term) {
  std::fill(sums, sums + s.width, 0.0);
  for (int64_t first = 0; first < s.positions; first += kChunk) {
    const int64_t n = std::min(kChunk, s.positions - first);
    if (s.width == 1) {
      sums[0] += static_cast<double>(lane_sum(
          n, [ term, first ](int64_t i) __attribute__((always_inline)) { return term(0, first + i); }));
      continue;
    }
    int64_t c = 0;
    for (; c + kLanes <= s.width; c += kLanes) {
      float even[kLanes] = {}, odd[kLanes] = {};
      const int64_t place = first * s.stride + c;
      int64_t p = 0;
      for (; p + 2 <= n; p += 2) {
#pragma omp simd
        for (int64_t l = 0; l < kLanes; ++l) even[l] += term(c + l, place + p * s.stride + l);
#pragma omp simd
        for (int64_t l = 0; l < kLanes; ++l) odd[l] += term(c + l, place + (p + 1) * s.stride + l);
      }
      if (p < n)
#pragma omp simd
        for (int64_t l = 0; l < kLanes; ++l) even[l] += term(c + l, place + p * s.stride + l);
      for (int64_t l = 0; l < kLanes; ++l) sums[c + l] += static_cast<double>(even[l] + odd[l]);
    }
    for (; c < s.width; ++c) {
      float sum = 0;
      for (int64_t p = first; p < first + n; ++p) sum += term(c, p * s.stride + c);
      sums[c] += static_cast<double>(sum);
    }
  }
}

// f(c, place) for every element.
template <typename F>
[[gnu::always_inline]] inline void for_strip(const Strip& s, F f) {
  if (s.width == 1) {
#pragma omp simd
    for (int64_t p = 0; p < s.positions; ++p) f(0, p);
    return;
  }
  for (int64_t p = 0; p < s.positions; ++p)
#pragma omp simd
    for (int64_t c = 0; c < s.width; ++c) f(c, p * s.stride + c);
}

DTRAIN_CLONES
void sum_up(const Strip& s, const float* x, double* sums) {
  channel_sums(
      s, sums, [x](int64_t, int64_t at) __attribute__((always_inline)) { return x[at]; });
}

DTRAIN_CLONES
void sum_squares(const Strip& s, const float* x, const float* center, double* sums) {
  channel_sums(
      s, sums, [ x, center ](int64_t c, int64_t at) __attribute__((always_inline)) {
        const float centred = x[at] - center[c];
        return centred * centred;
      });
}

DTRAIN_CLONES
void sum_products(const Strip& s, const float* x, const float* dy, const float* center, double* sums) {
  channel_sums(
      s, sums,
      [ x, dy, center ](int64_t c, int64_t at) __attribute__((always_inline)) { return dy[at] * (x[at] - center[c]); });
}

DTRAIN_CLONES
void normalise(const Strip& s, const float* x, const float* center, const float* scale, const float* shift, float* y) {
  for_strip(
      s, [=](int64_t c, int64_t at)
             __attribute__((always_inline)) { y[at] = (x[at] - center[c]) * scale[c] + shift[c]; });
}

DTRAIN_CLONES
void differentiate(const Strip& s, const float* x, const float* dy, const float* center, const float* scale,
                   const float* shift, const float* slope, float* dx) {
  for_strip(
      s, [=](int64_t c, int64_t at) __attribute__((always_inline)) {
        dx[at] = dy[at] * scale[c] - shift[c] - (x[at] - center[c]) * slope[c];
      });
}

// Where x lies, and its units.
class Geometry {
 public:
  explicit Geometry(const OpRequest& request) {
    const Shape& x = request.inputs[0].shape;
    samples = x[0];
    channels = stored = x[1];
    positions = x.elements() / (x[0] * x[1]);
    groups = request.attributes_as<GroupNorm>().groups;
    group = channels / groups;
    span = group;
    if (const auto known = image_layout_of(request.inputs[0])) {
      layout = request.inputs[0].layout;
      block_ = known->block;
      blocked_ = known->order == ImageLayout::Order::kBlocked;
      stored = (channels + block_ - 1) / block_ * block_;
      if (blocked_)
        span = std::lcm(group, block_);
      else if (block_ > 1)
        span = group * std::max<int64_t>(1, 4 * kLanes / group);
    }
    units_ = (channels + span - 1) / span;
  }

  // f(sample, first channel, end of channels).
  template <typename F>
  void for_units(F f) const {
    for_pieces(samples * units_, kGrain / (span * positions), [&](int64_t begin, int64_t end) {
      for (int64_t u = begin; u < end; ++u) {
        const int64_t first = u % units_ * span;
        f(u / units_, first, std::min(first + span, channels));
      }
    });
  }

  // f(strip, place of its first element in the value, its first channel) for the strips of a unit, padding included.
  template <typename F>
  void for_strips(int64_t sample, int64_t first, int64_t end, F f) const {
    const int64_t base = sample * stored * positions;
    if (block_ > 1 && !blocked_) return f(Strip{end - first, positions, stored}, base + first, first);
    for (int64_t c = first; c < end; c += block_) f(Strip{block_, positions, block_}, base + c * positions, c);
  }

  // What an array by channels has for padding, where a unit ends with the last channel.
  void clear_padding(int64_t end, float* values) const {
    if (end == channels) std::fill(values + channels, values + stored, 0.0f);
  }

  int64_t samples, channels, stored, positions, groups, group,
      span;  // stored: channels with padding; group: its channels
  LayoutPtr layout;

 private:
  int64_t block_ = 1, units_;
  bool blocked_ = false;
};

double total(const double* sums, int64_t n) { return std::accumulate(sums, sums + n, 0.0); }

class GroupNormKernel final : public OwnKernel {
 public:
  explicit GroupNormKernel(const OpRequest& request)
      : OwnKernel(request),
        g_(request),
        epsilon_(static_cast<double>(request.attributes_as<GroupNorm>().epsilon)),
        affine_(request.inputs.size() == 3) {
    input_layouts[0] = outputs[0].layout = g_.layout;
    in_place = {{0, 0}};
    scratch_bytes = static_cast<size_t>(g_.samples * g_.stored) * (sizeof(double) + 3 * sizeof(float));
  }

  static std::optional<std::string> unsupported(const OpRequest&) { return std::nullopt; }

  void run(std::span<const void* const> in, std::span<void* const> out, void* scratch, const RunContext&) override {
    const auto input = [&](size_t i) { return affine_ || i == 0 ? static_cast<const float*>(in[i]) : nullptr; };
    const auto output = [&](size_t i) { return i < out.size() ? static_cast<float*>(out[i]) : nullptr; };
    const float *x = input(0), *gamma = input(1), *beta = input(2);
    float *y = output(0), *means = output(1), *rstds = output(2);
    const int64_t all = g_.samples * g_.stored;
    const auto count = static_cast<double>(g_.group * g_.positions);

    g_.for_units([&](int64_t sample, int64_t first, int64_t end) {
      double* sums = static_cast<double*>(scratch) + sample * g_.stored;
      float* center = reinterpret_cast<float*>(static_cast<double*>(scratch) + all) + sample * g_.stored;
      float *scale = center + all, *shift = scale + all;
      for (float* values : {center, scale, shift}) g_.clear_padding(end, values);

      g_.for_strips(sample, first, end, [&](const Strip& s, int64_t at, int64_t c) { sum_up(s, x + at, sums + c); });
      for (int64_t c = first; c < end; c += g_.group)
        std::fill_n(center + c, g_.group, static_cast<float>(total(sums + c, g_.group) / count));
      g_.for_strips(sample, first, end,
                    [&](const Strip& s, int64_t at, int64_t c) { sum_squares(s, x + at, center + c, sums + c); });
      for (int64_t c = first; c < end; c += g_.group) {
        const auto rstd = static_cast<float>(1.0 / std::sqrt(total(sums + c, g_.group) / count + epsilon_));
        for (int64_t i = c; i < c + g_.group; ++i) {
          scale[i] = gamma ? rstd * gamma[i] : rstd;
          shift[i] = beta ? beta[i] : 0.0f;
        }
        if (!means) continue;
        const int64_t group = sample * g_.groups + c / g_.group;
        means[group] = center[c];
        rstds[group] = rstd;
      }
      g_.for_strips(sample, first, end, [&](const Strip& s, int64_t at, int64_t c) {
        normalise(s, x + at, center + c, scale + c, shift + c, y + at);
      });
    });
  }

 private:
  Geometry g_;
  double epsilon_;
  bool affine_;
};

class GroupNormBackwardKernel final : public OwnKernel {
 public:
  explicit GroupNormBackwardKernel(const OpRequest& request)
      : OwnKernel(request), g_(request), affine_(request.inputs.size() == 5) {
    input_layouts[0] = input_layouts[1] = outputs[0].layout = g_.layout;
    in_place = {{0, 1}, {0, 0}};
    scratch_bytes = static_cast<size_t>(g_.samples * g_.stored) * (2 * sizeof(double) + 4 * sizeof(float));
  }

  static std::optional<std::string> unsupported(const OpRequest&) { return std::nullopt; }

  void run(std::span<const void* const> in, std::span<void* const> out, void* scratch, const RunContext&) override {
    const auto input = [&](size_t i) { return static_cast<const float*>(in[i]); };
    const float *x = input(0), *dy = input(1), *means = input(2), *rstds = input(3);
    const float* gamma = affine_ ? input(4) : nullptr;
    auto* dx = static_cast<float*>(out[0]);
    const int64_t all = g_.samples * g_.stored;
    auto *sums = static_cast<double*>(scratch), *dots = sums + all;
    const auto count = static_cast<double>(g_.group * g_.positions);

    g_.for_units([&](int64_t sample, int64_t first, int64_t end) {
      const int64_t own = sample * g_.stored;
      double *sum = sums + own, *dot = dots + own;
      float* center = reinterpret_cast<float*>(dots + all) + own;
      float *scale = center + all, *shift = scale + all, *slope = shift + all;
      for (float* values : {center, scale, shift, slope}) g_.clear_padding(end, values);

      for (int64_t c = first; c < end; c += g_.group)
        std::fill_n(center + c, g_.group, means[sample * g_.groups + c / g_.group]);
      g_.for_strips(sample, first, end, [&](const Strip& s, int64_t at, int64_t c) {
        sum_up(s, dy + at, sum + c);
        sum_products(s, x + at, dy + at, center + c, dot + c);
      });
      // With x̂ = (x − mean)·rstd and g = dy·gamma: dx = rstd·(g − mean(g) − x̂·mean(g·x̂)), as of a row of layer_norm.
      for (int64_t c = first; c < end; c += g_.group) {
        const float rstd = rstds[sample * g_.groups + c / g_.group];
        const auto r = static_cast<double>(rstd);
        double g = 0, product = 0;
        for (int64_t i = c; i < c + g_.group; ++i) {
          const double weight = gamma ? static_cast<double>(gamma[i]) : 1.0;
          g += weight * sum[i];
          product += weight * dot[i];
          scale[i] = gamma ? rstd * gamma[i] : rstd;
          dot[i] *= r;
        }
        std::fill_n(shift + c, g_.group, static_cast<float>(r * g / count));
        std::fill_n(slope + c, g_.group, static_cast<float>(r * r * r * product / count));
      }
      g_.for_strips(sample, first, end, [&](const Strip& s, int64_t at, int64_t c) {
        differentiate(s, x + at, dy + at, center + c, scale + c, shift + c, slope + c, dx + at);
      });
    });
    if (!affine_) return;
    for (int64_t c = 0; c < g_.channels; ++c) {
      double dgamma = 0, dbeta = 0;
      for (int64_t n = 0; n < g_.samples; ++n) {
        dgamma += dots[n * g_.stored + c];
        dbeta += sums[n * g_.stored + c];
      }
      static_cast<float*>(out[1])[c] = static_cast<float>(dgamma);
      static_cast<float*>(out[2])[c] = static_cast<float>(dbeta);
    }
  }

 private:
  Geometry g_;
  bool affine_;
};

const Registration kForward("cpu", "group_norm", std::make_unique<OwnOp<GroupNormKernel>>());
const Registration kBackward("cpu", "group_norm.backward", std::make_unique<OwnOp<GroupNormBackwardKernel>>());

}  // namespace
}  // namespace dtrain::ops::cpu
