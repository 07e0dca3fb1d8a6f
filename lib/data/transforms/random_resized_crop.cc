// A part of random area and proportions at a random place, resized to a fixed size: the augmentation of Szegedy et al.,
// "Going Deeper with Convolutions", CVPR 2015, section 6, with the rule of torchvision's RandomResizedCrop: ten tries
// for an area uniform in scale · the image's and a width : height log-uniform in ratio; if none fits, the largest part
// in the middle whose proportions are within ratio.
//
//   { type = "random_resized_crop", size = 224, scale = [0.08, 1], ratio = [0.75, 1.3333333333333333] }
//
// Words of the stream, of try t: 4t the area, 4t + 1 the proportions, 4t + 2 the first row, 4t + 3 the first column.
#include <algorithm>
#include <cmath>

#include "data/bilinear.h"
#include "data/transform.h"

namespace dtrain::data {
namespace {

constexpr uint64_t kTries = 10;
using Range = std::array<double, 2>;

// low · (high / low)^u for u = word / 2^32, by square roots alone, whose rounding is the same everywhere: the power is
// the product of the 2^-k-th powers for the bits of u.
double log_uniform(uint32_t word, const Range& range) {
  double power = range[1] / range[0], value = range[0];
  for (int bit = 31; bit >= 0; --bit) {
    power = std::sqrt(power);
    if (word >> bit & 1) value *= power;
  }
  return value;
}

struct Box {
  int64_t top = 0, left = 0, height = 0, width = 0;
};

class RandomResizedCrop final : public Transform {
 public:
  RandomResizedCrop(config::Pair size, Range scale, Range ratio) : size_(size), scale_(scale), ratio_(ratio) {}

  bool random() const override { return true; }
  ImageShape shape_after(const ImageShape& before) const override { return {before.channels, size_[0], size_[1]}; }

  Status apply(Image& image, const Philox& stream) const override {
    const Box box = choose(image.shape, stream);
    image = resize_bilinear(crop(image, box.top, box.left, box.height, box.width), size_[0], size_[1]);
    return {};
  }

 private:
  Box choose(const ImageShape& image, const Philox& stream) const {
    const double area = static_cast<double>(image.height) * static_cast<double>(image.width);
    for (uint64_t t = 0; t < kTries; ++t) {
      const Philox4 words = stream.group(t);
      const double target = area * (scale_[0] + (scale_[1] - scale_[0]) * uniform01(words[0]));
      const double ratio = log_uniform(words[1], ratio_);
      const double width = std::floor(std::sqrt(target * ratio) + 0.5);
      const double height = std::floor(std::sqrt(target / ratio) + 0.5);
      if (width < 1 || height < 1 || width > static_cast<double>(image.width) ||
          height > static_cast<double>(image.height))
        continue;
      Box box{0, 0, static_cast<int64_t>(height), static_cast<int64_t>(width)};
      box.top = uniform_below(words[2], image.height - box.height + 1);
      box.left = uniform_below(words[3], image.width - box.width + 1);
      return box;
    }
    return middle(image);
  }

  Box middle(const ImageShape& image) const {
    const auto rows = static_cast<double>(image.height), columns = static_cast<double>(image.width);
    Box box{0, 0, image.height, image.width};
    if (columns / rows < ratio_[0])
      box.height = std::clamp(static_cast<int64_t>(std::floor(columns / ratio_[0] + 0.5)), int64_t{1}, image.height);
    else if (columns / rows > ratio_[1])
      box.width = std::clamp(static_cast<int64_t>(std::floor(rows * ratio_[1] + 0.5)), int64_t{1}, image.width);
    box.top = (image.height - box.height) / 2;
    box.left = (image.width - box.width) / 2;
    return box;
  }

  config::Pair size_;
  Range scale_, ratio_;
};

Range read_range(config::TableReader& table, const char* key, Range standard, double max) {
  const std::vector<double> range = table.numbers(key, {standard[0], standard[1]}, 0, max);
  if (range.size() == 2 && range[0] > 0 && range[0] <= range[1]) return {range[0], range[1]};
  table.error(key, std::string(key) + " is [from, to], above 0 and from ≤ to");
  return standard;
}

std::unique_ptr<Transform> make_random_resized_crop(config::TableReader& table, const ImageShape&) {
  const config::Pair size = table.require_pair("size", 1, kMaxExtent);
  const Range scale = read_range(table, "scale", {0.08, 1}, 1);
  const Range ratio = read_range(table, "ratio", {3.0 / 4.0, 4.0 / 3.0}, 1000);
  return std::make_unique<RandomResizedCrop>(size, scale, ratio);
}

const TransformRegistration kRegistration("random_resized_crop", make_random_resized_crop);

}  // namespace
}  // namespace dtrain::data
