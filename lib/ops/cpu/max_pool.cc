#include "ops/cpu/max_pool.h"

#include <cstring>
#include <type_traits>

#include "base/vectorize.h"
#include "ops/cpu/own_kernel.h"
#include "ops/pool2d.h"

namespace dtrain::ops::cpu {
namespace {

using Tag = dnnl::memory::format_tag;
using dnnl::memory;

// Values as [planes, height, width, lanes]: a plane is a sample (channels-last) or a block of channels of one.
struct Geometry {
  int64_t planes, lanes, height, width, out_height, out_width;
  std::array<int64_t, 2> kernel, stride, pad;

  int64_t in_plane() const { return height * width * lanes; }
  int64_t out_plane() const { return out_height * out_width * lanes; }
  // Whether each element of x is in exactly one window.
  bool tiles() const {
    return stride == kernel && pad == std::array<int64_t, 2>{0, 0} && out_height * stride[0] == height &&
           out_width * stride[1] == width;
  }
};

std::optional<Tag> tag_of(const memory::desc& x) {
  for (Tag tag : {Tag::nhwc, Tag::nChw16c, Tag::nChw8c}) {
    const memory::desc tagged(x.dims(), memory::data_type::f32, tag);
    if (OnednnLayout(tagged).equals(OnednnLayout(x))) return tag;
  }
  return std::nullopt;
}

bool applies(const Pool2d& a, const memory::desc& x) {
  return a.kernel[0] * a.kernel[1] <= 255 && 2 * a.pad[0] <= a.kernel[0] && 2 * a.pad[1] <= a.kernel[1] && tag_of(x);
}

Geometry geometry(const Pool2d& a, const memory::desc& x, const Shape& y) {
  const auto d = x.dims();
  const int64_t channels = x.data.padded_dims[1];
  const Tag tag = *tag_of(x);
  const int64_t lanes = tag == Tag::nhwc ? channels : tag == Tag::nChw16c ? 16 : 8;
  return {d[0] * channels / lanes, lanes, d[2], d[3], y[2], y[3], a.kernel, a.stride, a.pad};
}

// The part of window `out` along one axis that lies inside: [begin, end), and the window's own start.
struct Reach {
  int64_t start, begin, end;
};
inline Reach reach_of(const Geometry& g, size_t axis, int64_t extent, int64_t out) {
  const int64_t start = out * g.stride[axis] - g.pad[axis];
  return {start, std::max<int64_t>(start, 0), std::min(start + g.kernel[axis], extent)};
}

// Calls f(width, first) for pieces of 16 and 4 lanes. kAgain: the last piece may take in lanes that were done before.
template <bool kAgain, typename F>
[[gnu::always_inline]] inline void for_lanes(int64_t lanes, F f) {
  int64_t v = 0;
  for (; v + 16 <= lanes; v += 16) f(std::integral_constant<int, 16>(), v);
  for (; v + 4 <= lanes; v += 4) f(std::integral_constant<int, 4>(), v);
  if (kAgain && v < lanes && lanes >= 4) return f(std::integral_constant<int, 4>(), lanes - 4);
  for (; v < lanes; ++v) f(std::integral_constant<int, 1>(), v);
}

// W lanes of one window. Later elements win only if greater: of equal ones the first takes the gradient. NaN wins.
template <int W>
[[gnu::always_inline]] inline void window_maximum(const Geometry& g, const float* x, Reach rows, Reach columns,
                                                  float* y, uint8_t* places) {
  float best[W];
  int32_t place[W];
  for (int v = 0; v < W; ++v) {
    best[v] = -__builtin_inff();
    place[v] = static_cast<int32_t>((rows.begin - rows.start) * g.kernel[1] + columns.begin - columns.start);
  }
  for (int64_t h = rows.begin; h < rows.end; ++h)
    for (int64_t w = columns.begin; w < columns.end; ++w) {
      const float* from = x + (h * g.width + w) * g.lanes;
      const auto at = static_cast<int32_t>((h - rows.start) * g.kernel[1] + w - columns.start);
#pragma omp simd
      for (int v = 0; v < W; ++v) {
        const bool wins = !(from[v] <= best[v]);
        best[v] = wins ? from[v] : best[v];
        place[v] = wins ? at : place[v];
      }
    }
#pragma omp simd
  for (int v = 0; v < W; ++v) y[v] = best[v];
  if (places) {
#pragma omp simd
    for (int v = 0; v < W; ++v) places[v] = static_cast<uint8_t>(place[v]);
  }
}

DTRAIN_CLONES
void pool_plane(const Geometry& g, const float* x, float* y, uint8_t* places) {
  for (int64_t oh = 0; oh < g.out_height; ++oh)
    for (int64_t ow = 0; ow < g.out_width; ++ow) {
      const Reach rows = reach_of(g, 0, g.height, oh), columns = reach_of(g, 1, g.width, ow);
      const int64_t out = (oh * g.out_width + ow) * g.lanes;
      for_lanes</*kAgain=*/true>(
          g.lanes, [&](auto width, int64_t v) __attribute__((always_inline)) {
            window_maximum<width>(g, x + v, rows, columns, y + out + v, places ? places + out + v : nullptr);
          });
    }
}

// W lanes of one window's gradient. kTiles: every element of dx is written once; else dx is summed up.
template <int W, bool kTiles>
[[gnu::always_inline]] inline void scatter_window(const Geometry& g, const float* dy, const uint8_t* places, Reach rows,
                                                  Reach columns, float* dx) {
  float d[W];
  int32_t place[W];
#pragma omp simd
  for (int v = 0; v < W; ++v) d[v] = dy[v];
#pragma omp simd
  for (int v = 0; v < W; ++v) place[v] = places[v];
  for (int64_t h = rows.begin; h < rows.end; ++h)
    for (int64_t w = columns.begin; w < columns.end; ++w) {
      float* to = dx + (h * g.width + w) * g.lanes;
      const auto at = static_cast<int32_t>((h - rows.start) * g.kernel[1] + w - columns.start);
#pragma omp simd
      for (int v = 0; v < W; ++v) {
        const float taken = place[v] == at ? d[v] : 0.0f;
        to[v] = kTiles ? taken : to[v] + taken;
      }
    }
}

template <bool kTiles>
[[gnu::always_inline]] inline void scatter_plane(const Geometry& g, const float* dy, const uint8_t* places, float* dx) {
  for (int64_t oh = 0; oh < g.out_height; ++oh)
    for (int64_t ow = 0; ow < g.out_width; ++ow) {
      const Reach rows = reach_of(g, 0, g.height, oh), columns = reach_of(g, 1, g.width, ow);
      const int64_t out = (oh * g.out_width + ow) * g.lanes;
      for_lanes<kTiles>(
          g.lanes, [&](auto width, int64_t v) __attribute__((always_inline)) {
            scatter_window<width, kTiles>(g, dy + out + v, places + out + v, rows, columns, dx + v);
          });
    }
}

DTRAIN_CLONES
void scatter_tiles(const Geometry& g, const float* dy, const uint8_t* places, float* dx) {
  scatter_plane<true>(g, dy, places, dx);
}

DTRAIN_CLONES
void scatter_windows(const Geometry& g, const float* dy, const uint8_t* places, float* dx) {
  scatter_plane<false>(g, dy, places, dx);
}

class MaxPoolKernel final : public OwnKernel {
 public:
  MaxPoolKernel(const OpRequest& request, const memory::desc& x)
      : OwnKernel(request), g_(geometry(request.attributes_as<Pool2d>(), x, request.outputs[0].shape)) {
    input_layouts[0] = layout_of(x);
    outputs[0].layout = layout_of({dims_of(outputs[0].shape), memory::data_type::f32, *tag_of(x)});
    if (outputs.size() == 2)
      outputs[1] = workspace_desc({{g_.planes * g_.out_plane()}, memory::data_type::u8, Tag::a}, x);
  }

  void run(std::span<const void* const> in, std::span<void* const> out, void*, const RunContext&) override {
    const auto* x = static_cast<const float*>(in[0]);
    auto* y = static_cast<float*>(out[0]);
    auto* places = out.size() == 2 ? static_cast<uint8_t*>(out[1]) : nullptr;
    for_pieces(g_.planes, kGrain / g_.in_plane(), [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p)
        pool_plane(g_, x + p * g_.in_plane(), y + p * g_.out_plane(), places ? places + p * g_.out_plane() : nullptr);
    });
  }

 private:
  Geometry g_;
};

class MaxPoolBackwardKernel final : public OwnKernel {
 public:
  MaxPoolBackwardKernel(const OpRequest& request, const memory::desc& x)
      : OwnKernel(request), g_(geometry(request.attributes_as<Pool2d>(), x, request.inputs[0].shape)) {
    input_layouts[0] = layout_of({dims_of(request.inputs[0].shape), memory::data_type::f32, *tag_of(x)});
    input_layouts[1] = request.inputs[1].layout;
    outputs[0].layout = layout_of(x);
  }

  void run(std::span<const void* const> in, std::span<void* const> out, void*, const RunContext&) override {
    const auto* dy = static_cast<const float*>(in[0]);
    const auto* places = static_cast<const uint8_t*>(in[1]);
    auto* dx = static_cast<float*>(out[0]);
    const bool tiles = g_.tiles();
    for_pieces(g_.planes, kGrain / g_.in_plane(), [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        float* to = dx + p * g_.in_plane();
        const int64_t out_at = p * g_.out_plane();
        if (!tiles) std::memset(to, 0, static_cast<size_t>(g_.in_plane()) * sizeof(float));
        (tiles ? scatter_tiles : scatter_windows)(g_, dy + out_at, places + out_at, to);
      }
    });
  }

 private:
  Geometry g_;
};

}  // namespace

std::unique_ptr<Kernel> make_max_pool(const OpRequest& request, const memory::desc& x) {
  if (!applies(request.attributes_as<Pool2d>(), x)) return nullptr;
  return std::make_unique<MaxPoolKernel>(request, x);
}

std::unique_ptr<Kernel> make_max_pool_backward(const OpRequest& request, const memory::desc& x) {
  if (!applies(request.attributes_as<Pool2d>(), x)) return nullptr;
  return std::make_unique<MaxPoolBackwardKernel>(request, x);
}

}  // namespace dtrain::ops::cpu
