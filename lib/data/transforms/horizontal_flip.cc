// Left and right exchanged, with a probability.
//
//   { type = "horizontal_flip", probability = 0.5 }
//
// Word 0 of the stream.
#include <algorithm>

#include "data/transform.h"

namespace dtrain::data {
namespace {

class HorizontalFlip final : public Transform {
 public:
  explicit HorizontalFlip(double probability) : probability_(probability) {}

  bool random() const override { return true; }

  Status apply(Image& image, const Philox& stream) const override {
    if (uniform01(stream.at(0)) >= probability_) return {};
    for (int64_t c = 0; c < image.shape.channels; ++c)
      for (int64_t y = 0; y < image.shape.height; ++y)
        std::reverse(image.row(c, y), image.row(c, y) + image.shape.width);
    return {};
  }

 private:
  double probability_;
};

std::unique_ptr<Transform> make_horizontal_flip(config::TableReader& table, const ImageShape&) {
  return std::make_unique<HorizontalFlip>(table.number("probability", 0.5, 0, 1));
}

const TransformRegistration kRegistration("horizontal_flip", make_horizontal_flip);

}  // namespace
}  // namespace dtrain::data
