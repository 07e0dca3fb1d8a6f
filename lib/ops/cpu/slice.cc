// slice: one contiguous run of each row; its backward puts the run back between zeros. Channels of images are cut in
// the layout that is there, where that is a matter of runs too.
#include <cstring>

#include "ops/cpu/image_layout.h"
#include "ops/cpu/own_kernel.h"
#include "ops/elementwise.h"
#include "ops/registry.h"

namespace dtrain::ops::cpu {
namespace {

// The order in which to cut channels: that of the value which is there. Blocks must not be cut; where they would be,
// channels-last still suits the convolution behind.
ImageLayout cut_layout(const OpRequest& request) {
  const auto layout = image_layout_of(request.inputs[0]);
  if (!layout) return {};
  const int64_t from = request.inputs[0].shape[1], to = request.outputs[0].shape[1];
  ImageLayout chosen = *layout;
  if (chosen.order == ImageLayout::Order::kBlocked &&
      (request.attributes_as<Slice>().begin % chosen.block != 0 || from % chosen.block != 0 || to % chosen.block != 0))
    chosen.order = ImageLayout::Order::kChannelsLast;
  return chosen;
}

// Rows of the whole value x and of the part y, in bytes.
class CutKernel : public OwnKernel {
 public:
  static std::optional<std::string> unsupported(const OpRequest&) { return std::nullopt; }

 protected:
  CutKernel(const OpRequest& request, const Shape& x, const Shape& y) : OwnKernel(request) {
    const auto& a = request.attributes_as<Slice>();
    DTRAIN_CHECK(a.axis >= 0 && a.axis < y.rank() && a.begin >= 0 && a.begin + y[a.axis] <= x[a.axis]);
    for (int i = 0; i < a.axis; ++i) outer_ *= y[i];
    int64_t behind = 1;
    for (int i = a.axis + 1; i < y.rank(); ++i) behind *= y[i];
    const ImageLayout layout = a.axis == 1 ? cut_layout(request) : ImageLayout{};
    if (layout.order != ImageLayout::Order::kPlain) {
      input_layouts[0] = layout_of_image(request.inputs[0].shape, layout);
      outputs[0].layout = layout_of_image(request.outputs[0].shape, layout);
    }
    if (layout.order == ImageLayout::Order::kChannelsLast) {  // heights and widths stand before the channels
      outer_ *= behind;
      behind = 1;
    }
    const size_t inner = static_cast<size_t>(behind) * size_of(request.inputs[0].dtype);
    begin_bytes_ = static_cast<size_t>(a.begin) * inner;
    whole_bytes_ = static_cast<size_t>(x[a.axis]) * inner;
    part_bytes_ = static_cast<size_t>(y[a.axis]) * inner;
  }

  // f(row) for every row; `bytes` are those that one writes.
  template <typename F>
  void for_rows(size_t bytes, F f) const {
    const int64_t grain = kGrain * 4 / static_cast<int64_t>(std::max<size_t>(bytes, 1));
    for_pieces(outer_, grain, [&](int64_t begin, int64_t end) {
      for (auto o = static_cast<size_t>(begin); o < static_cast<size_t>(end); ++o) f(o);
    });
  }

  int64_t outer_ = 1;
  size_t begin_bytes_, whole_bytes_, part_bytes_;  // where the part starts in a row; the lengths of rows
};

class SliceKernel final : public CutKernel {
 public:
  explicit SliceKernel(const OpRequest& request)
      : CutKernel(request, request.inputs[0].shape, request.outputs[0].shape) {}

  void run(std::span<const void* const> in, std::span<void* const> out, void*, const RunContext&) override {
    for_rows(part_bytes_, [&](size_t row) {
      std::memcpy(static_cast<std::byte*>(out[0]) + row * part_bytes_,
                  static_cast<const std::byte*>(in[0]) + row * whole_bytes_ + begin_bytes_, part_bytes_);
    });
  }
};

class SliceBackwardKernel final : public CutKernel {
 public:
  explicit SliceBackwardKernel(const OpRequest& request)
      : CutKernel(request, request.outputs[0].shape, request.inputs[0].shape) {}

  void run(std::span<const void* const> in, std::span<void* const> out, void*, const RunContext&) override {
    const size_t behind = begin_bytes_ + part_bytes_;
    for_rows(whole_bytes_, [&](size_t row) {
      std::byte* to = static_cast<std::byte*>(out[0]) + row * whole_bytes_;
      std::memset(to, 0, begin_bytes_);
      std::memcpy(to + begin_bytes_, static_cast<const std::byte*>(in[0]) + row * part_bytes_, part_bytes_);
      std::memset(to + behind, 0, whole_bytes_ - behind);
    });
  }
};

const Registration kSlice("cpu", "slice", std::make_unique<OwnOp<SliceKernel>>());
const Registration kBackward("cpu", "slice.backward", std::make_unique<OwnOp<SliceBackwardKernel>>());

}  // namespace
}  // namespace dtrain::ops::cpu
