// Zeros in a square around a random pixel, as far as it lies within the image: DeVries and Taylor, "Improved
// Regularization of Convolutional Neural Networks with Cutout", 2017 (arXiv:1708.04552).
//
//   { type = "cutout", size = 16 }      or [height, width]
//
// Words of the stream: 0 the row in the middle, 1 the column.
#include <algorithm>

#include "data/transform.h"

namespace dtrain::data {
namespace {

class Cutout final : public Transform {
 public:
  explicit Cutout(config::Pair size) : size_(size) {}

  bool random() const override { return true; }

  Status apply(Image& image, const Philox& stream) const override {
    const int64_t top = uniform_below(stream.at(0), image.shape.height) - size_[0] / 2;
    const int64_t left = uniform_below(stream.at(1), image.shape.width) - size_[1] / 2;
    const int64_t x_begin = std::max<int64_t>(0, left), x_end = std::min(image.shape.width, left + size_[1]);
    for (int64_t c = 0; c < image.shape.channels; ++c)
      for (int64_t y = std::max<int64_t>(0, top); y < std::min(image.shape.height, top + size_[0]); ++y)
        std::fill(image.row(c, y) + x_begin, image.row(c, y) + x_end, 0.0f);
    return {};
  }

 private:
  config::Pair size_;
};

std::unique_ptr<Transform> make_cutout(config::TableReader& table, const ImageShape&) {
  return std::make_unique<Cutout>(table.require_pair("size", 1, kMaxExtent));
}

const TransformRegistration kRegistration("cutout", make_cutout);

}  // namespace
}  // namespace dtrain::data
