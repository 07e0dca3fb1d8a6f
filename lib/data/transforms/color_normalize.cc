// (x − mean) / std, by channel.
//
//   { type = "color_normalize", mean = [0.485, 0.456, 0.406], std = [0.229, 0.224, 0.225] }
#include <fmt/format.h>

#include "data/transform.h"

namespace dtrain::data {
namespace {

class ColorNormalize final : public Transform {
 public:
  ColorNormalize(std::vector<float> mean, std::vector<float> std) : mean_(std::move(mean)), std_(std::move(std)) {}

  Status apply(Image& image, const Philox&) const override {
    const auto width = static_cast<size_t>(image.shape.height * image.shape.width);
    for (size_t c = 0; c < static_cast<size_t>(image.shape.channels); ++c) {
      const float mean = mean_[mean_.size() == 1 ? 0 : c], deviation = std_[std_.size() == 1 ? 0 : c];
      float* values = image.values.data() + c * width;
      for (size_t i = 0; i < width; ++i) values[i] = (values[i] - mean) / deviation;
    }
    return {};
  }

 private:
  std::vector<float> mean_, std_;  // one for all channels, or one a channel
};

std::vector<float> read_by_channel(config::TableReader& table, const char* key, double standard, int64_t channels) {
  const std::vector<double> values = table.numbers(key, {standard});
  if (values.size() != 1 && static_cast<int64_t>(values.size()) != channels) {
    table.error(key, fmt::format("{} has {} numbers, the images have {} channels", key, values.size(), channels));
    return {static_cast<float>(standard)};
  }
  return {values.begin(), values.end()};
}

std::unique_ptr<Transform> make_color_normalize(config::TableReader& table, const ImageShape& before) {
  std::vector<float> mean = read_by_channel(table, "mean", 0, before.channels);
  std::vector<float> deviation = read_by_channel(table, "std", 1, before.channels);
  for (float s : deviation)
    if (!(s > 0)) {
      table.error("std", "std must be above 0: values are divided by it");
      break;
    }
  return std::make_unique<ColorNormalize>(std::move(mean), std::move(deviation));
}

const TransformRegistration kRegistration("color_normalize", make_color_normalize);

}  // namespace
}  // namespace dtrain::data
