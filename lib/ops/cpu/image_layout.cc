#include "ops/cpu/image_layout.h"

#include "ops/cpu/onednn.h"

namespace dtrain::ops::cpu {
namespace {

using Tag = dnnl::memory::format_tag;

Tag tag_of(ImageLayout layout) {
  if (layout.order == ImageLayout::Order::kPlain) return Tag::nchw;
  if (layout.order == ImageLayout::Order::kChannelsLast) return Tag::nhwc;
  return layout.block == 16 ? Tag::nChw16c : layout.block == 8 ? Tag::nChw8c : Tag::nChw4c;
}

}  // namespace

std::optional<ImageLayout> image_layout_of(const TensorDesc& value) {
  using Order = ImageLayout::Order;
  if (value.shape.rank() != 4 || value.dtype != DType::kF32) return std::nullopt;
  if (!value.layout) return ImageLayout{};
  const int64_t channels = value.shape[1];
  for (const ImageLayout& known : {ImageLayout{Order::kChannelsLast, channels}, ImageLayout{Order::kBlocked, 16},
                                   ImageLayout{Order::kBlocked, 8}, ImageLayout{Order::kBlocked, 4}})
    if (same_layout(value.layout, layout_of_image(value.shape, known))) return known;
  return std::nullopt;
}

LayoutPtr layout_of_image(const Shape& shape, ImageLayout layout) {
  return layout_of(dnnl::memory::desc(dims_of(shape), dnnl::memory::data_type::f32, tag_of(layout)));
}

}  // namespace dtrain::ops::cpu
