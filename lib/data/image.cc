#include "data/image.h"

#include <fmt/format.h>

#include <algorithm>

namespace dtrain::data {

std::string to_string(const ImageShape& shape) {
  if (!shape.fixed()) return fmt::format("[{}, any, any]", shape.channels);
  return fmt::format("[{}, {}, {}]", shape.channels, shape.height, shape.width);
}

Image make_image(ImageShape shape) {
  return {shape, std::vector<float>(static_cast<size_t>(shape.channels * shape.height * shape.width))};
}

Image crop(const Image& image, int64_t top, int64_t left, int64_t height, int64_t width) {
  Image out = make_image({image.shape.channels, height, width});
  const int64_t x_begin = std::max<int64_t>(0, -left), x_end = std::min(width, image.shape.width - left);
  if (x_begin >= x_end) return out;
  for (int64_t c = 0; c < image.shape.channels; ++c)
    for (int64_t y = std::max<int64_t>(0, -top); y < std::min(height, image.shape.height - top); ++y)
      std::copy_n(image.row(c, top + y) + left + x_begin, x_end - x_begin, out.row(c, y) + x_begin);
  return out;
}

}  // namespace dtrain::data
