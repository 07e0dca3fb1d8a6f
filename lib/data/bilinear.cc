#include "data/bilinear.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace dtrain::data {
namespace {

// The inputs that an output is the weighted mean of.
struct Taps {
  int64_t first = 0;
  std::vector<float> weights;
};

std::vector<Taps> taps_of(int64_t in, int64_t out) {
  const double scale = static_cast<double>(in) / static_cast<double>(out), reach = std::max(scale, 1.0);
  std::vector<Taps> all(static_cast<size_t>(out));
  std::vector<double> weights;
  for (int64_t i = 0; i < out; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale;
    const auto first = static_cast<int64_t>(std::max(0.0, centre - reach + 0.5));
    const int64_t end = std::min(in, static_cast<int64_t>(centre + reach + 0.5));
    weights.clear();
    double sum = 0;
    for (int64_t k = first; k < end; ++k) {
      const double distance = std::fabs((static_cast<double>(k) - centre + 0.5) / reach);
      weights.push_back(std::max(0.0, 1.0 - distance));
      sum += weights.back();
    }
    Taps& taps = all[static_cast<size_t>(i)];
    taps.first = first;
    for (double w : weights) taps.weights.push_back(static_cast<float>(w / sum));
  }
  return all;
}

Image resize_rows(const Image& image, int64_t width) {
  const std::vector<Taps> all = taps_of(image.shape.width, width);
  Image out = make_image({image.shape.channels, image.shape.height, width});
  for (int64_t c = 0; c < image.shape.channels; ++c)
    for (int64_t y = 0; y < image.shape.height; ++y) {
      const float* from = image.row(c, y);
      float* to = out.row(c, y);
      for (const Taps& taps : all) {
        float sum = 0;
        for (size_t k = 0; k < taps.weights.size(); ++k)
          sum += taps.weights[k] * from[taps.first + static_cast<int64_t>(k)];
        *to++ = sum;
      }
    }
  return out;
}

Image resize_columns(const Image& image, int64_t height) {
  const std::vector<Taps> all = taps_of(image.shape.height, height);
  Image out = make_image({image.shape.channels, height, image.shape.width});
  const auto width = static_cast<size_t>(image.shape.width);
  for (int64_t c = 0; c < image.shape.channels; ++c)
    for (int64_t y = 0; y < height; ++y) {
      const Taps& taps = all[static_cast<size_t>(y)];
      float* to = out.row(c, y);
      for (size_t k = 0; k < taps.weights.size(); ++k) {
        const float* from = image.row(c, taps.first + static_cast<int64_t>(k));
        const float weight = taps.weights[k];
        for (size_t x = 0; x < width; ++x) to[x] += weight * from[x];
      }
    }
  return out;
}

}  // namespace

Image resize_bilinear(const Image& image, int64_t height, int64_t width) {
  return resize_columns(resize_rows(image, width), height);
}

}  // namespace dtrain::data
