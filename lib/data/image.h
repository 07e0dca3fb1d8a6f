// A sample that is an image, as numbers, on its way from a file to a batch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dtrain::data {

// Height and width are 0 where they differ from image to image.
struct ImageShape {
  int64_t channels = 0, height = 0, width = 0;

  bool fixed() const { return height > 0 && width > 0; }
  bool operator==(const ImageShape&) const = default;
};
std::string to_string(const ImageShape& shape);

struct Image {
  ImageShape shape;           // fixed
  std::vector<float> values;  // [channels, height, width]

  float* row(int64_t channel, int64_t y) { return values.data() + (channel * shape.height + y) * shape.width; }
  const float* row(int64_t channel, int64_t y) const {
    return values.data() + (channel * shape.height + y) * shape.width;
  }
};

Image make_image(ImageShape shape);  // zeros
// The part of this size from (top, left) on, which may be outside of the image: zeros there.
Image crop(const Image& image, int64_t top, int64_t left, int64_t height, int64_t width);

}  // namespace dtrain::data
