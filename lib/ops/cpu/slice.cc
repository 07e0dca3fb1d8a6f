// slice: one contiguous run of each row. Channels of images are cut in the layout that x has, where that is a matter of
// runs too.
#include <cstring>

#include "ops/cpu/image_layout.h"
#include "ops/cpu/own_kernel.h"
#include "ops/elementwise.h"
#include "ops/registry.h"

namespace dtrain::ops::cpu {
namespace {

// The order in which to cut channels: x's own. Blocks must not be cut; where they would be, channels-last still suits
// the convolution behind.
ImageLayout cut_layout(const OpRequest& request) {
  const auto layout = image_layout_of(request.inputs[0]);
  if (!layout) return {};
  const int64_t begin = request.attributes_as<Slice>().begin, extent = request.outputs[0].shape[1];
  ImageLayout chosen = *layout;
  if (chosen.order == ImageLayout::Order::kBlocked &&
      (begin % chosen.block != 0 || extent % chosen.block != 0 || request.inputs[0].shape[1] % chosen.block != 0))
    chosen.order = ImageLayout::Order::kChannelsLast;
  return chosen;
}

class SliceKernel final : public OwnKernel {
 public:
  explicit SliceKernel(const OpRequest& request) : OwnKernel(request) {
    const auto& a = request.attributes_as<Slice>();
    const Shape &x = request.inputs[0].shape, &y = request.outputs[0].shape;
    DTRAIN_CHECK(a.axis >= 0 && a.axis < y.rank() && a.begin >= 0 && a.begin + y[a.axis] <= x[a.axis]);
    for (int i = 0; i < a.axis; ++i) outer_ *= y[i];
    int64_t behind = 1;
    for (int i = a.axis + 1; i < y.rank(); ++i) behind *= y[i];
    const ImageLayout layout = a.axis == 1 ? cut_layout(request) : ImageLayout{};
    if (layout.order != ImageLayout::Order::kPlain) {
      input_layouts[0] = layout_of_image(x, layout);
      outputs[0].layout = layout_of_image(y, layout);
    }
    if (layout.order == ImageLayout::Order::kChannelsLast) {  // heights and widths stand before the channels
      outer_ *= behind;
      behind = 1;
    }
    const size_t inner = static_cast<size_t>(behind) * size_of(request.inputs[0].dtype);
    begin_bytes_ = static_cast<size_t>(a.begin) * inner;
    from_bytes_ = static_cast<size_t>(x[a.axis]) * inner;
    to_bytes_ = static_cast<size_t>(y[a.axis]) * inner;
  }

  static std::optional<std::string> unsupported(const OpRequest&) { return std::nullopt; }

  void run(std::span<const void* const> in, std::span<void* const> out, void*, const RunContext&) override {
    const int64_t grain = kGrain * 4 / static_cast<int64_t>(std::max<size_t>(to_bytes_, 1));
    for_pieces(outer_, grain, [&](int64_t begin, int64_t end) {
      for (auto o = static_cast<size_t>(begin); o < static_cast<size_t>(end); ++o)
        std::memcpy(static_cast<std::byte*>(out[0]) + o * to_bytes_,
                    static_cast<const std::byte*>(in[0]) + o * from_bytes_ + begin_bytes_, to_bytes_);
    });
  }

 private:
  int64_t outer_ = 1;
  size_t begin_bytes_, from_bytes_, to_bytes_;  // where the run starts in a row, a row's and a run's length
};

const Registration kSlice("cpu", "slice", std::make_unique<OwnOp<SliceKernel>>());

}  // namespace
}  // namespace dtrain::ops::cpu
