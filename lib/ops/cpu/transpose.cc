// transpose: axes that stay neighbours count as one. Where the innermost stays innermost, runs are copied; else small
// square tiles, whole cache lines in and whole cache lines out.
#include "ops/transpose.h"

#include <cstring>
#include <vector>

#include "base/vectorize.h"
#include "ops/cpu/own_kernel.h"
#include "ops/registry.h"

namespace dtrain::ops::cpu {
namespace {

using Element = uint32_t;
constexpr int64_t kTile = 16;  // elements of a cache line

// y[i·to + j] = x[j·from + i] for i < width, j < height.
DTRAIN_CLONES
void move_tile(const Element* x, int64_t from, Element* y, int64_t to, int64_t width, int64_t height) {
  Element tile[kTile][kTile];
  if (width == kTile) {
    for (int64_t j = 0; j < height; ++j) std::memcpy(tile[j], x + j * from, sizeof(tile[j]));
  } else {
    for (int64_t j = 0; j < height; ++j)
      for (int64_t i = 0; i < width; ++i) tile[j][i] = x[j * from + i];
  }
  for (int64_t i = 0; i < width; ++i)
    for (int64_t j = 0; j < height; ++j) y[i * to + j] = tile[j][i];
}

class TransposeKernel final : public OwnKernel {
 public:
  explicit TransposeKernel(const OpRequest& request) : OwnKernel(request) {
    find_axes(request);
    if (axes_.empty()) axes_.push_back({1, 1, 1});
    inner_ = axes_.back();
    axes_.pop_back();
    if (inner_.from == 1) return;
    for (size_t i = 0; i < axes_.size(); ++i)
      if (axes_[i].from == 1) {
        across_ = axes_[i];
        axes_.erase(axes_.begin() + static_cast<std::ptrdiff_t>(i));
        return;
      }
  }

  static std::optional<std::string> unsupported(const OpRequest& request) {
    if (size_of(request.inputs[0].dtype) != sizeof(Element)) return "elements of another size than 4 bytes";
    return std::nullopt;
  }

  void run(std::span<const void* const> in, std::span<void* const> out, void*, const RunContext&) override {
    const auto* x = static_cast<const Element*>(in[0]);
    auto* y = static_cast<Element*>(out[0]);
    int64_t outer = 1;
    for (const Axis& a : axes_) outer *= a.extent;
    if (inner_.from == 1) {
      for_pieces(outer, kGrain / inner_.extent, [&](int64_t begin, int64_t end) {
        for (int64_t o = begin; o < end; ++o) {
          const auto [from, to] = place(o);
          std::memcpy(y + to, x + from, static_cast<size_t>(inner_.extent) * sizeof(Element));
        }
      });
      return;
    }
    const int64_t strips = (across_.extent + kTile - 1) / kTile;
    for_pieces(outer * strips, kGrain / (inner_.extent * kTile), [&](int64_t begin, int64_t end) {
      for (int64_t s = begin; s < end; ++s) {
        const auto [from, to] = place(s / strips);
        const int64_t i = s % strips * kTile, width = std::min(kTile, across_.extent - i);
        for (int64_t j = 0; j < inner_.extent; j += kTile)
          move_tile(x + from + i + j * inner_.from, inner_.from, y + to + i * across_.to + j, across_.to, width,
                    std::min(kTile, inner_.extent - j));
      }
    });
  }

 private:
  // An axis of y, and how far apart its steps are in x and in y.
  struct Axis {
    int64_t extent, from, to;
  };

  // In y's order, without those of extent 1, joined where one step of the outer is all of the inner in x too.
  void find_axes(const OpRequest& request) {
    const std::vector<int>& order = request.attributes_as<Transpose>().order;
    const Shape &x = request.inputs[0].shape, &y = request.outputs[0].shape;
    DTRAIN_CHECK(order.size() == static_cast<size_t>(x.rank()) && y.rank() == x.rank());
    int64_t to = y.elements();
    for (int a = 0; a < y.rank(); ++a) {
      const int k = order[static_cast<size_t>(a)];
      DTRAIN_CHECK(k >= 0 && k < x.rank() && x[k] == y[a]);
      if (y[a] == 1) continue;
      int64_t from = 1;
      for (int i = k + 1; i < x.rank(); ++i) from *= x[i];
      to /= y[a];
      if (!axes_.empty() && axes_.back().from == from * y[a])
        axes_.back() = {axes_.back().extent * y[a], from, to};
      else
        axes_.push_back({y[a], from, to});
    }
  }

  // Where number `o` of the outer axes' places begins in x and in y.
  std::pair<int64_t, int64_t> place(int64_t o) const {
    int64_t from = 0, to = 0;
    for (size_t a = axes_.size(); a-- > 0; o /= axes_[a].extent) {
      const int64_t i = o % axes_[a].extent;
      from += i * axes_[a].from;
      to += i * axes_[a].to;
    }
    return {from, to};
  }

  std::vector<Axis> axes_;        // all but the two below
  Axis inner_, across_{1, 1, 1};  // y's innermost; x's innermost where that is another
};

const Registration kTranspose("cpu", "transpose", std::make_unique<OwnOp<TransposeKernel>>());

}  // namespace
}  // namespace dtrain::ops::cpu
