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

void resize_row(const float* from, const std::vector<Taps>& all, float* to) {
  for (const Taps& taps : all) {
    float sum = 0;
    for (size_t k = 0; k < taps.weights.size(); ++k)
      sum += taps.weights[k] * from[taps.first + static_cast<int64_t>(k)];
    *to++ = sum;
  }
}

}  // namespace

// Row by row of the input, each added to the output's rows that it is a part of, so that no image between the two is
// needed: of a tall and narrow one it could be far larger than both.
Image resize_bilinear(const Image& image, int64_t height, int64_t width) {
  const std::vector<Taps> across = taps_of(image.shape.width, width), down = taps_of(image.shape.height, height);
  Image out = make_image({image.shape.channels, height, width});
  std::vector<float> row(static_cast<size_t>(width));
  for (int64_t c = 0; c < image.shape.channels; ++c) {
    int64_t begin = 0;  // the first row of the output that is not complete
    for (int64_t y = 0; y < image.shape.height; ++y) {
      const auto place = [&](int64_t to) { return y - down[static_cast<size_t>(to)].first; };
      const auto weights = [&](int64_t to) -> const std::vector<float>& {
        return down[static_cast<size_t>(to)].weights;
      };
      while (begin < height && place(begin) >= static_cast<int64_t>(weights(begin).size())) ++begin;
      resize_row(image.row(c, y), across, row.data());
      for (int64_t at = begin; at < height && place(at) >= 0; ++at) {
        float* const to = out.row(c, at);
        const float weight = weights(at)[static_cast<size_t>(place(at))];
        for (size_t x = 0; x < row.size(); ++x) to[x] += weight * row[x];
      }
    }
  }
  return out;
}

}  // namespace dtrain::data
