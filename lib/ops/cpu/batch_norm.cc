// batch_norm and its gradient, channels side by side in vectors: images channels-last or blocked, and rows of features.
//
// The work goes by strips of up to sixteen channels: the second pass over a strip finds it in the cache where its
// values fit there (1.6 MB for 56 × 56 images of eight samples). Sums are made in fp32 over at most kGroup positions,
// four partial sums each, then in fp64, of differences from the channel's first value, so that one pass gives a mean
// and a variance without cancellation; their order follows from sample and position alone, whatever the layout.
#include "ops/batch_norm.h"

#include <array>
#include <cmath>

#include "base/vectorize.h"
#include "ops/cpu/image_layout.h"
#include "ops/cpu/lane_vector.h"
#include "ops/cpu/own_kernel.h"
#include "ops/registry.h"

namespace dtrain::ops::cpu {
namespace {

constexpr int kWidth = 16;
constexpr int64_t kGroup = 512;

// Where the values of one strip lie: [samples][positions][W], by strides.
struct Strip {
  int64_t samples, positions, sample_stride, row_stride;
  double count() const { return static_cast<double>(samples) * static_cast<double>(positions); }
};

// Numbers of a strip's channels, one a lane.
using Channel = std::array<float, kWidth>;
struct Sums {
  std::array<double, kWidth> first{}, second{};
};

// Calls row(offset, k) for all rows, k being which of four partial sums it belongs to, and group_end() after each
// group.
template <typename Row, typename End>
[[gnu::always_inline]] inline void for_groups(const Strip& s, Row row, End group_end) {
  for (int64_t n = 0; n < s.samples; ++n)
    for (int64_t at = 0; at < s.positions; at += kGroup) {
      const int64_t end = at + kGroup < s.positions ? at + kGroup : s.positions;
      int64_t offset = n * s.sample_stride + at * s.row_stride;
      int64_t i = at;
      for (; i + 4 <= end; i += 4, offset += 4 * s.row_stride) {
        row(offset, std::integral_constant<int, 0>());
        row(offset + s.row_stride, std::integral_constant<int, 1>());
        row(offset + 2 * s.row_stride, std::integral_constant<int, 2>());
        row(offset + 3 * s.row_stride, std::integral_constant<int, 3>());
      }
      for (; i < end; ++i, offset += s.row_stride) row(offset, std::integral_constant<int, 0>());
      group_end();
    }
}

// The last sample first: what the pass over the groups has read last is still in the cache.
template <typename Row>
[[gnu::always_inline]] inline void for_rows(const Strip& s, Row row) {
  for (int64_t n = s.samples; n-- > 0;)
    for (int64_t i = 0; i < s.positions; ++i) row(n * s.sample_stride + i * s.row_stride);
}

// Two sums at once, in four parts.
template <int W>
struct Partial {
  Floats<W> a[4] = {}, b[4] = {};
  template <int K>
  [[gnu::always_inline]] void add(Floats<W> first, Floats<W> second) {
    a[K] += first;
    b[K] += second;
  }
  [[gnu::always_inline]] void fold(Sums& into) {
    const Floats<W> first = (a[0] + a[1]) + (a[2] + a[3]), second = (b[0] + b[1]) + (b[2] + b[3]);
    for (int l = 0; l < W; ++l) {
      into.first[static_cast<size_t>(l)] += static_cast<double>(first[l]);
      into.second[static_cast<size_t>(l)] += static_cast<double>(second[l]);
    }
    *this = {};
  }
};

// Sums of x − shift and of its square.
template <int W>
[[gnu::always_inline]] inline void sum_values(const Strip& s, const float* x, const Channel& shift, Sums& sums) {
  const Floats<W> from = load<W>(shift.data());
  Partial<W> part;
  for_groups(
      s,
      [&](int64_t at, auto k) __attribute__((always_inline)) {
        const Floats<W> d = load<W>(x + at) - from;
        part.template add<k()>(d, d * d);
      },
      [&]() __attribute__((always_inline)) { part.fold(sums); });
}

struct Affine {
  Channel mean{}, scale{}, beta{};
};

template <int W, bool kRelu>
[[gnu::always_inline]] inline void normalise_strip(const Strip& s, const float* x, const Affine& a, const float* r,
                                                   float* y) {
  const Floats<W> mean = load<W>(a.mean.data()), scale = load<W>(a.scale.data()), beta = load<W>(a.beta.data());
  const auto row = [&](int64_t at, Floats<W> more) __attribute__((always_inline)) {
    const Floats<W> v = ((load<W>(x + at) - mean) * scale + beta) + more;
    store<W>(y + at, kRelu ? rectified<W>(v) : v);
  };
  if (r)
    for_rows(
        s, [&](int64_t at) __attribute__((always_inline)) { row(at, load<W>(r + at)); });
  else
    for_rows(
        s, [&](int64_t at) __attribute__((always_inline)) { row(at, Floats<W>{}); });
}

// The pointers of a backward pass, at one strip. `dz` is where the gradient before the addition goes, or null.
struct Gradients {
  const float* x;
  const float* y;  // null without relu
  const float* const* dy;
  int64_t offset;  // of the strip in each dy
  size_t several;
  float* dz;
};

// Sums of dz and of dz·(x − mean).
template <int W>
[[gnu::always_inline]] inline void sum_gradients(const Strip& s, const Gradients& g, const Channel& mean, Sums& sums) {
  const Floats<W> from = load<W>(mean.data());
  Partial<W> part;
  for_groups(
      s,
      [&](int64_t at, auto k) __attribute__((always_inline)) {
        Floats<W> d = load<W>(g.dy[0] + g.offset + at);
        for (size_t i = 1; i < g.several; ++i) d += load<W>(g.dy[i] + g.offset + at);
        if (g.y) d = load<W>(g.y + at) > Floats<W>{} ? d : Floats<W>{};
        if (g.dz) store<W>(g.dz + at, d);
        part.template add<k()>(d, d * (load<W>(g.x + at) - from));
      },
      [&]() __attribute__((always_inline)) { part.fold(sums); });
}

// dx = scale·dz − a − (x − mean)·b.
struct Slope {
  Channel mean{}, scale{}, a{}, b{};
};

template <int W>
[[gnu::always_inline]] inline void differentiate_strip(const Strip& s, const float* x, const float* dz, const Slope& k,
                                                       float* dx) {
  const Floats<W> mean = load<W>(k.mean.data()), scale = load<W>(k.scale.data()), a = load<W>(k.a.data()),
                  b = load<W>(k.b.data());
  for_rows(
      s, [&](int64_t at) __attribute__((always_inline)) {
        store<W>(dx + at, (scale * load<W>(dz + at) - a) - (load<W>(x + at) - mean) * b);
      });
}

// Calls f(width) with the width as a constant.
template <typename F>
[[gnu::always_inline]] inline void with_width(int width, F f) {
  if (width == 16) return f(std::integral_constant<int, 16>());
  if (width == 8) return f(std::integral_constant<int, 8>());
  if (width == 4) return f(std::integral_constant<int, 4>());
  f(std::integral_constant<int, 1>());
}

DTRAIN_CLONES void sum_values_of(int width, const Strip& s, const float* x, const Channel& shift, Sums& sums) {
  with_width(
      width, [&](auto w) __attribute__((always_inline)) { sum_values<w()>(s, x, shift, sums); });
}
DTRAIN_CLONES void normalise(int width, const Strip& s, const float* x, const Affine& a, const float* r, bool relu,
                             float* y) {
  with_width(
      width, [&](auto w) __attribute__((always_inline)) {
        relu ? normalise_strip<w(), true>(s, x, a, r, y) : normalise_strip<w(), false>(s, x, a, r, y);
      });
}
DTRAIN_CLONES void sum_gradients_of(int width, const Strip& s, const Gradients& g, const Channel& mean, Sums& sums) {
  with_width(
      width, [&](auto w) __attribute__((always_inline)) { sum_gradients<w()>(s, g, mean, sums); });
}
DTRAIN_CLONES void differentiate(int width, const Strip& s, const float* x, const float* dz, const Slope& k,
                                 float* dx) {
  with_width(
      width, [&](auto w) __attribute__((always_inline)) { differentiate_strip<w()>(s, x, dz, k, dx); });
}

std::optional<std::string> refused(const OpRequest& request) {
  const ActivationKind kind = request.attributes_as<BatchNorm>().activation.kind;
  if (kind != ActivationKind::kNone && kind != ActivationKind::kRelu) return "a fused activation other than relu";
  return std::nullopt;
}

// What the three kernels share: how x lies, and the walk over its strips.
class StripKernel : public OwnKernel {
 protected:
  explicit StripKernel(const OpRequest& request)
      : OwnKernel(request), norm_(request.attributes_as<BatchNorm>()), channels_(request.inputs[0].shape[1]) {
    const Shape& x = request.inputs[0].shape;
    ImageLayout image{ImageLayout::Order::kChannelsLast, channels_};
    strip_ = {x[0], 1, channels_, channels_};
    if (x.rank() == 4) {
      const auto present = image_layout_of(request.inputs[0]);
      if (present && present->order == ImageLayout::Order::kBlocked) image = *present;
      layout_ = layout_of_image(x, image);
      strip_.positions = x[2] * x[3];
    }
    blocked_ = image.order == ImageLayout::Order::kBlocked;
    block_ = blocked_ ? image.block : 1;
    const int64_t padded = (channels_ + block_ - 1) / block_ * block_;
    strip_.row_stride = blocked_ ? block_ : channels_;
    strip_.sample_stride = strip_.positions * padded;
  }

  // Calls f(first channel, width, offset of the strip's first value) for every strip, on all threads.
  template <typename F>
  void for_strips(F f) const {
    const int64_t full = blocked_ ? block_ : kWidth;
    const int64_t strips = (channels_ + full - 1) / full;
    const int64_t size = strip_.samples * strip_.positions * full;
    for_pieces(strips, kGrain / size, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        if (blocked_) {
          f(i * full, static_cast<int>(full), i * strip_.positions * full);
          continue;
        }
        const int64_t last = std::min(channels_, (i + 1) * full);
        for (int64_t c = i * full; c < last;) {
          const int64_t left = last - c;
          const int width = left >= 16 ? 16 : left >= 8 ? 8 : left >= 4 ? 4 : 1;
          f(c, width, c);
          c += width;
        }
      }
    });
  }

  // Numbers of the channels from `first` on; 0 where blocks are padded.
  Channel channels_at(const float* all, int64_t first, int width, float absent) const {
    Channel c{};
    for (int l = 0; l < width && first + l < channels_; ++l) c[static_cast<size_t>(l)] = all ? all[first + l] : absent;
    return c;
  }
  // Channels of a strip that are there.
  int64_t present(int64_t first, int width) const { return std::min<int64_t>(width, channels_ - first); }

  double inverse_deviation(double variance) const {
    return 1.0 / std::sqrt(variance + static_cast<double>(norm_.epsilon));
  }

  static const float* floats(const void* p) { return static_cast<const float*>(p); }

  const BatchNorm norm_;
  const int64_t channels_;
  Strip strip_;
  LayoutPtr layout_;

 private:
  bool blocked_ = false;
  int64_t block_ = 1;
};

class Forward final : public StripKernel {
 public:
  Forward(const OpRequest& request, bool training) : StripKernel(request), training_(training) {
    input_layouts[0] = outputs[0].layout = layout_;
    if (norm_.residual) input_layouts.back() = layout_;
    in_place = {{0, 0}};
    if (norm_.residual) in_place.emplace_back(0, static_cast<int>(request.inputs.size()) - 1);
  }

  void run(std::span<const void* const> in, std::span<void* const> out, void*, const RunContext&) override {
    const float *x = floats(in[0]), *gamma = norm_.affine ? floats(in[3]) : nullptr,
                *beta = norm_.affine ? floats(in[4]) : nullptr, *r = norm_.residual ? floats(in.back()) : nullptr;
    const bool relu = norm_.activation.kind == ActivationKind::kRelu;
    for_strips([&](int64_t first, int width, int64_t at) {
      Affine a;
      a.beta = channels_at(beta, first, width, 0.0f);
      std::array<double, kWidth> variance{};
      if (training_)
        measure(x + at, first, width, in, out, a.mean, variance);
      else
        take_running(first, width, in, a.mean, variance);
      const Channel g = channels_at(gamma, first, width, 1.0f);
      for (size_t l = 0; l < kWidth; ++l)
        a.scale[l] = static_cast<float>(static_cast<double>(g[l]) * inverse_deviation(variance[l]));
      normalise(width, strip_, x + at, a, r ? r + at : nullptr, relu, static_cast<float*>(out[0]) + at);
    });
  }

 private:
  void measure(const float* x, int64_t first, int width, std::span<const void* const> in, std::span<void* const> out,
               Channel& mean, std::array<double, kWidth>& variance) const {
    Channel shift{};
    std::copy_n(x, width, shift.begin());
    Sums sums;
    sum_values_of(width, strip_, x, shift, sums);
    const double n = strip_.count(), m = static_cast<double>(norm_.momentum);
    for (int64_t l = 0; l < present(first, width); ++l) {
      const auto i = static_cast<size_t>(l);
      const double d = sums.first[i] / n, average = static_cast<double>(shift[i]) + d;
      const double spread = sums.second[i] / n - d * d;
      mean[i] = static_cast<float>(average);
      variance[i] = spread < 0 ? 0 : spread;
      const auto put = [&](size_t o, double value) {
        static_cast<float*>(out[o])[first + l] = static_cast<float>(value);
      };
      put(1, average);
      put(2, variance[i]);
      put(3, (1 - m) * static_cast<double>(floats(in[1])[first + l]) + m * average);
      put(4, (1 - m) * static_cast<double>(floats(in[2])[first + l]) + m * variance[i] * n / (n - 1));
    }
  }

  void take_running(int64_t first, int width, std::span<const void* const> in, Channel& mean,
                    std::array<double, kWidth>& variance) const {
    mean = channels_at(floats(in[1]), first, width, 0.0f);
    const Channel running = channels_at(floats(in[2]), first, width, 0.0f);
    for (size_t l = 0; l < kWidth; ++l) variance[l] = static_cast<double>(running[l]);
  }

  const bool training_;
};

// Ioffe & Szegedy, section 3, with the sums taken before the division by the deviation.
class Backward final : public StripKernel {
 public:
  explicit Backward(const OpRequest& request) : StripKernel(request) {
    relu_ = norm_.activation.kind == ActivationKind::kRelu;
    first_dy_ = first_gradient(norm_);
    gives_residual_ = request.outputs.size() == (norm_.affine ? 4u : 2u);
    input_layouts[0] = outputs[0].layout = layout_;
    for (size_t i = relu_ ? first_dy_ - 1 : first_dy_; i < input_layouts.size(); ++i) input_layouts[i] = layout_;
    const auto dy = static_cast<int>(first_dy_), last = static_cast<int>(outputs.size()) - 1;
    if (gives_residual_) {
      outputs.back().layout = layout_;
      in_place = {{last, dy}, {0, 0}};
    } else {
      in_place = {{0, dy}};
    }
  }

  void run(std::span<const void* const> in, std::span<void* const> out, void*, const RunContext&) override {
    const float *x = floats(in[0]), *gamma = norm_.affine ? floats(in[3]) : nullptr,
                *y = relu_ ? floats(in[first_dy_ - 1]) : nullptr;
    std::array<const float*, BatchNorm::kMostGradients> dy{};
    const size_t several = in.size() - first_dy_;
    for (size_t i = 0; i < several; ++i) dy[i] = floats(in[first_dy_ + i]);
    auto* dx = static_cast<float*>(out[0]);
    // Where dz is not dy itself it is kept, for r or until dx takes its place.
    float* dz = gives_residual_ ? static_cast<float*>(out.back()) : relu_ || several > 1 ? dx : nullptr;
    for_strips([&](int64_t first, int width, int64_t at) {
      const Channel mean = channels_at(floats(in[1]), first, width, 0.0f);
      const Gradients g{x + at, y ? y + at : nullptr, dy.data(), at, several, dz ? dz + at : nullptr};
      Sums sums;
      sum_gradients_of(width, strip_, g, mean, sums);
      const Slope k = slope(first, width, mean, channels_at(gamma, first, width, 1.0f), floats(in[2]), sums, out);
      differentiate(width, strip_, x + at, dz ? dz + at : dy[0] + at, k, dx + at);
    });
  }

  // Which input is the first of the gradients.
  static size_t first_gradient(const BatchNorm& norm) {
    return 3u + (norm.affine ? 1 : 0) + (norm.activation.kind == ActivationKind::kRelu ? 1 : 0);
  }

 private:
  Slope slope(int64_t first, int width, const Channel& mean, const Channel& gamma, const float* variance,
              const Sums& sums, std::span<void* const> out) const {
    Slope k;
    k.mean = mean;
    for (int64_t l = 0; l < present(first, width); ++l) {
      const auto i = static_cast<size_t>(l);
      const double r = inverse_deviation(static_cast<double>(variance[first + l])), n = strip_.count();
      const double scale = static_cast<double>(gamma[i]) * r;
      k.scale[i] = static_cast<float>(scale);
      k.a[i] = static_cast<float>(scale * sums.first[i] / n);
      k.b[i] = static_cast<float>(scale * r * r * sums.second[i] / n);
      if (!norm_.affine) continue;
      static_cast<float*>(out[1])[first + l] = static_cast<float>(sums.second[i] * r);
      static_cast<float*>(out[2])[first + l] = static_cast<float>(sums.first[i]);
    }
    return k;
  }

  bool relu_ = false, gives_residual_ = false;
  size_t first_dy_ = 0;
};

class ForwardOp final : public Op {
 public:
  explicit ForwardOp(bool training) : training_(training) {}
  std::optional<std::string> unsupported(const OpRequest& r) const override {
    if (training_ && r.inputs[0].shape.elements() == r.inputs[0].shape[1])
      return "one value a channel, which has no variance";
    return refused(r);
  }
  Result<std::unique_ptr<Kernel>> plan(const OpRequest& r) const override {
    return std::unique_ptr<Kernel>(std::make_unique<Forward>(r, training_));
  }

 private:
  bool training_;
};

class BackwardOp final : public Op {
 public:
  std::optional<std::string> unsupported(const OpRequest& r) const override {
    const size_t others = Backward::first_gradient(r.attributes_as<BatchNorm>());
    if (r.inputs.size() > others + BatchNorm::kMostGradients) return "the sum of so many gradients";
    return refused(r);
  }
  Result<std::unique_ptr<Kernel>> plan(const OpRequest& r) const override {
    return std::unique_ptr<Kernel>(std::make_unique<Backward>(r));
  }
};

const Registration forward("cpu", "batch_norm", std::make_unique<ForwardOp>(true));
const Registration backward("cpu", "batch_norm.backward", std::make_unique<BackwardOp>());
const Registration inference("cpu", "batch_norm.inference", std::make_unique<ForwardOp>(false));

}  // namespace
}  // namespace dtrain::ops::cpu
