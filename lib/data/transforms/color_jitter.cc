// Brightness, contrast and saturation by random factors, each uniform in [max(0, 1 − strength), 1 + strength], in this
// order; as torchvision defines each of them, for values between 0 and 1, where the results are cut off. Grey is
// 0.2989 R + 0.587 G + 0.114 B.
//
//   { type = "color_jitter", brightness = 0.4, contrast = 0.4, saturation = 0.4 }      0 unless told
//
// Words of the stream: 0 brightness, 1 contrast, 2 saturation.
#include <fmt/format.h>

#include <algorithm>

#include "data/transform.h"

namespace dtrain::data {
namespace {

struct Strengths {
  double brightness = 0, contrast = 0, saturation = 0;
};

float factor(uint32_t word, double strength) {
  const double low = std::max(0.0, 1 - strength), high = 1 + strength;
  return static_cast<float>(low + (high - low) * uniform01(word));
}

float within(float x) { return std::min(1.0f, std::max(0.0f, x)); }

class ColorJitter final : public Transform {
 public:
  explicit ColorJitter(Strengths strengths) : strengths_(strengths) {}

  bool random() const override { return true; }

  Status apply(Image& image, const Philox& stream) const override {
    const Philox4 words = stream.group(0);
    if (strengths_.brightness > 0) {
      const float f = factor(words[0], strengths_.brightness);
      for (float& x : image.values) x = within(x * f);
    }
    if (strengths_.contrast > 0) {
      const float f = factor(words[1], strengths_.contrast);
      const std::vector<float> grey = grey_of(image);
      double sum = 0;
      for (float g : grey) sum += g;
      const float rest = (1 - f) * static_cast<float>(sum / static_cast<double>(grey.size()));
      for (float& x : image.values) x = within(x * f + rest);
    }
    if (strengths_.saturation > 0 && image.shape.channels == 3) {
      const float f = factor(words[2], strengths_.saturation);
      const std::vector<float> grey = grey_of(image);
      for (size_t i = 0; i < image.values.size(); ++i)
        image.values[i] = within(image.values[i] * f + (1 - f) * grey[i % grey.size()]);
    }
    return {};
  }

 private:
  static std::vector<float> grey_of(const Image& image) {
    if (image.shape.channels == 1) return image.values;
    const size_t n = image.values.size() / 3;
    std::vector<float> grey(n);
    const float* red = image.values.data();
    for (size_t i = 0; i < n; ++i) grey[i] = 0.2989f * red[i] + 0.587f * red[n + i] + 0.114f * red[2 * n + i];
    return grey;
  }

  Strengths strengths_;
};

std::unique_ptr<Transform> make_color_jitter(config::TableReader& table, const ImageShape& before) {
  Strengths s;
  s.brightness = table.number("brightness", 0, 0, 100);
  s.contrast = table.number("contrast", 0, 0, 100);
  s.saturation = table.number("saturation", 0, 0, 100);
  if (before.channels != 1 && before.channels != 3)
    table.error("type", fmt::format("color_jitter is for images of 1 or 3 channels, these have {}", before.channels));
  return std::make_unique<ColorJitter>(s);
}

const TransformRegistration kRegistration("color_jitter", make_color_jitter);

}  // namespace
}  // namespace dtrain::data
