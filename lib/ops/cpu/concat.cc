// concat: contiguous runs copied one after the other. Channels of images are joined in the layout that a convolution
// left, where that is a matter of runs too.
#include <cstring>
#include <vector>

#include "ops/cpu/image_layout.h"
#include "ops/cpu/own_kernel.h"
#include "ops/elementwise.h"
#include "ops/registry.h"

namespace dtrain::ops::cpu {
namespace {

// The order in which to join along the channels: that of the first input that is not plain. Blocks must be full;
// where they are not, channels-last still suits the convolution behind.
ImageLayout joint_layout(const OpRequest& request) {
  using Order = ImageLayout::Order;
  ImageLayout chosen;
  for (const TensorDesc& x : request.inputs) {
    const auto layout = image_layout_of(x);
    if (!layout) return {};
    if (chosen.order == Order::kPlain) chosen = *layout;
  }
  for (const TensorDesc& x : request.inputs)
    if (chosen.order == Order::kBlocked && x.shape[1] % chosen.block != 0) chosen.order = Order::kChannelsLast;
  return chosen;
}

class ConcatKernel final : public OwnKernel {
 public:
  explicit ConcatKernel(const OpRequest& request) : OwnKernel(request) {
    const int axis = request.attributes_as<Axis>().axis;
    const Shape& y = request.outputs[0].shape;
    DTRAIN_CHECK(axis >= 0 && axis < y.rank());
    int64_t inner = 1, total = 0;
    for (int i = 0; i < axis; ++i) outer_ *= y[i];
    for (int i = axis + 1; i < y.rank(); ++i) inner *= y[i];
    const ImageLayout layout = axis == 1 ? joint_layout(request) : ImageLayout{};
    if (layout.order == ImageLayout::Order::kChannelsLast) {  // heights and widths stand before the channels
      outer_ *= inner;
      inner = 1;
    }
    for (size_t k = 0; k < request.inputs.size(); ++k) {
      const TensorDesc& x = request.inputs[k];
      total += x.shape[axis];
      run_bytes_.push_back(static_cast<size_t>(x.shape[axis] * inner) * size_of(x.dtype));
      row_bytes_ += run_bytes_.back();
      if (layout.order != ImageLayout::Order::kPlain) input_layouts[k] = layout_of_image(x.shape, layout);
    }
    if (layout.order != ImageLayout::Order::kPlain) outputs[0].layout = layout_of_image(y, layout);
    DTRAIN_CHECK(total == y[axis]);
  }

  static std::optional<std::string> unsupported(const OpRequest&) { return std::nullopt; }

  void run(std::span<const void* const> in, std::span<void* const> out, void*, const RunContext&) override {
    const int64_t grain = kGrain * 4 / static_cast<int64_t>(std::max<size_t>(row_bytes_, 1));
    for_pieces(outer_, grain, [&](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o) {
        std::byte* to = static_cast<std::byte*>(out[0]) + static_cast<size_t>(o) * row_bytes_;
        for (size_t k = 0; k < in.size(); to += run_bytes_[k], ++k)
          std::memcpy(to, static_cast<const std::byte*>(in[k]) + static_cast<size_t>(o) * run_bytes_[k], run_bytes_[k]);
      }
    });
  }

 private:
  int64_t outer_ = 1;
  std::vector<size_t> run_bytes_;  // contiguous bytes of each input
  size_t row_bytes_ = 0;           // their sum
};

const Registration kConcat("cpu", "concat", std::make_unique<OwnOp<ConcatKernel>>());

}  // namespace
}  // namespace dtrain::ops::cpu
