#include "ops/cpu/weight_tiles.h"

#include <type_traits>

#include "base/vectorize.h"
#include "ops/cpu/onednn.h"
#include "ops/cpu/own_kernel.h"

namespace dtrain::ops::cpu {
namespace {

constexpr int64_t kSide = 16, kTile = kSide * kSide;

struct Tiles {
  int64_t out, in, positions;  // the weights are [out, in, positions]
  bool out_inner;              // in a tile output channels lie next to each other, else input channels

  int64_t in_tiles() const { return in / kSide; }
  // In memory: [out / 16][in / 16][position][16][16].
  int64_t tile_columns() const { return out / kSide * in_tiles(); }
  int64_t row_major(int64_t column) const {
    return (column / in_tiles() * kSide * in + column % in_tiles() * kSide) * positions;
  }
};

std::optional<Tiles> tiles_of(const TensorDesc& value) {
  const auto* layout = dynamic_cast<const OnednnLayout*>(value.layout.get());
  if (!layout || value.shape.rank() != 4 || value.dtype != DType::kF32) return std::nullopt;
  using Tag = dnnl::memory::format_tag;
  const Shape& s = value.shape;
  if (layout->desc().dims() != dims_of(s) || s[0] % kSide != 0 || s[1] % kSide != 0) return std::nullopt;
  for (const auto& [tag, out_inner] : {std::pair{Tag::OIhw16i16o, true}, {Tag::OIhw16o16i, false}})
    if (OnednnLayout({dims_of(s), dnnl::memory::data_type::f32, tag}).equals(*layout))
      return Tiles{s[0], s[1], s[2] * s[3], out_inner};
  return std::nullopt;
}

// One column of tiles, all P positions. The loops whose stores are contiguous win into tiles (23 against 11–15 GB/s)
// and out of single ones, those whose loads are contiguous out of several.
template <bool kOutInner, typename P>
[[gnu::always_inline]] inline void into_tiles(const float* plain, float* tiles, int64_t row, P positions) {
  for (int64_t p = 0; p < positions; ++p)
    for (int64_t a = 0; a < kSide; ++a) {
      float* to = tiles + p * kTile + a * kSide;
#pragma omp simd
      for (int64_t b = 0; b < kSide; ++b) {
        const int64_t o = kOutInner ? b : a, i = kOutInner ? a : b;
        to[b] = plain[o * row + i * positions + p];
      }
    }
}

template <bool kOutInner, typename P>
[[gnu::always_inline]] inline void out_of_tiles(const float* tiles, float* plain, int64_t row, P positions) {
  for (int64_t p = 0; p < positions; ++p)
    for (int64_t a = 0; a < kSide; ++a) {
      const float* from = tiles + p * kTile + a * kSide;
#pragma omp simd
      for (int64_t b = 0; b < kSide; ++b) {
        const int64_t o = kOutInner ? b : a, i = kOutInner ? a : b;
        plain[o * row + i * positions + p] = from[b];
      }
    }
}

template <bool kOutInner>
[[gnu::always_inline]] inline void out_of_tile(const float* tile, float* plain, int64_t row) {
  for (int64_t o = 0; o < kSide; ++o)
    for (int64_t i = 0; i < kSide; ++i) plain[o * row + i] = tile[kOutInner ? i * kSide + o : o * kSide + i];
}

template <bool kInto, bool kOutInner>
[[gnu::always_inline]] inline void turn(const Tiles& t, const float* from, float* to, int64_t begin, int64_t end) {
  constexpr std::integral_constant<int64_t, 1> kOne;
  constexpr std::integral_constant<int64_t, 9> kNine;
  for (int64_t c = begin; c < end; ++c) {
    const int64_t plain = t.row_major(c), tiles = c * t.positions * kTile, row = t.in * t.positions;
    const float* in = from + (kInto ? plain : tiles);
    float* out = to + (kInto ? tiles : plain);
    if (t.positions == 1)
      kInto ? into_tiles<kOutInner>(in, out, row, kOne) : out_of_tile<kOutInner>(in, out, row);
    else if (t.positions == 9)
      kInto ? into_tiles<kOutInner>(in, out, row, kNine) : out_of_tiles<kOutInner>(in, out, row, kNine);
    else
      kInto ? into_tiles<kOutInner>(in, out, row, t.positions) : out_of_tiles<kOutInner>(in, out, row, t.positions);
  }
}

using Turn = void(const Tiles&, const float*, float*, int64_t, int64_t);
DTRAIN_CLONES void into_out_inner(const Tiles& t, const float* from, float* to, int64_t begin, int64_t end) {
  turn<true, true>(t, from, to, begin, end);
}
DTRAIN_CLONES void into_in_inner(const Tiles& t, const float* from, float* to, int64_t begin, int64_t end) {
  turn<true, false>(t, from, to, begin, end);
}
DTRAIN_CLONES void from_out_inner(const Tiles& t, const float* from, float* to, int64_t begin, int64_t end) {
  turn<false, true>(t, from, to, begin, end);
}
DTRAIN_CLONES void from_in_inner(const Tiles& t, const float* from, float* to, int64_t begin, int64_t end) {
  turn<false, false>(t, from, to, begin, end);
}

class TileReorder final : public OwnKernel {
 public:
  TileReorder(const OpRequest& request, const Tiles& tiles, bool into) : OwnKernel(request), tiles_(tiles) {
    input_layouts = {request.inputs[0].layout};
    outputs = request.outputs;
    turn_ =
        into ? (tiles.out_inner ? into_out_inner : into_in_inner) : (tiles.out_inner ? from_out_inner : from_in_inner);
  }
  void run(std::span<const void* const> in, std::span<void* const> out, void*, const RunContext&) override {
    for_pieces(tiles_.tile_columns(), kGrain / (kTile * tiles_.positions), [&](int64_t begin, int64_t end) {
      turn_(tiles_, static_cast<const float*>(in[0]), static_cast<float*>(out[0]), begin, end);
    });
  }

 private:
  Tiles tiles_;
  Turn* turn_;
};

}  // namespace

std::unique_ptr<Kernel> make_tile_reorder(const OpRequest& request) {
  const TensorDesc &from = request.inputs[0], &to = request.outputs[0];
  if (from.dtype != DType::kF32 || to.dtype != DType::kF32) return nullptr;
  if (!from.layout)
    if (const auto tiles = tiles_of(to)) return std::make_unique<TileReorder>(request, *tiles, true);
  if (!to.layout)
    if (const auto tiles = tiles_of(from)) return std::make_unique<TileReorder>(request, *tiles, false);
  return nullptr;
}

}  // namespace dtrain::ops::cpu
