// The layouts of images [N,C,H,W] that own kernels read and write beside the plain one. All of them are
// [N][⌈C / block⌉][H][W][block] in memory: block is 1 in the plain layout, C in channels-last, else a vector's length,
// with zeros where C is no multiple of it.
#pragma once

#include <optional>

#include "ops/layout.h"

namespace dtrain::ops::cpu {

struct ImageLayout {
  enum class Order { kPlain, kChannelsLast, kBlocked };
  Order order = Order::kPlain;
  int64_t block = 1;
};

// nullopt where the value is no image in fp32 or lies otherwise.
std::optional<ImageLayout> image_layout_of(const TensorDesc& value);
// block is read for kBlocked only: 4, 8 or 16.
LayoutPtr layout_of_image(const Shape& shape, ImageLayout layout);

}  // namespace dtrain::ops::cpu
