#include <algorithm>

#include "tests/data_transforms/transformed.h"

namespace dtrain::data {
namespace {

using ::testing::FloatNear;
using ::testing::HasSubstr;

Philox4 words(int64_t number) {
  return Philox(1, stream_id("transform/1/color_jitter"), static_cast<uint32_t>(number), 0).group(0);
}
const Image kColours{{3, 1, 2}, {0.5f, 0.2f, 0.4f, 0.9f, 0.3f, 0.1f}};  // two pixels
float grey(int pixel) {
  return pixel == 0 ? 0.2989f * 0.5f + 0.587f * 0.4f + 0.114f * 0.3f : 0.2989f * 0.2f + 0.587f * 0.9f + 0.114f * 0.1f;
}

TEST(ColorJitterTest, BrightnessIsAFactor) {
  for (int64_t n = 0; n < 20; ++n) {
    const float f = 0.6f + 0.8f * uniform01(words(n)[0]);
    const Image out = transformed("[{ type = 'color_jitter', brightness = 0.4 }]", kColours, n);
    for (size_t i = 0; i < 6; ++i) EXPECT_NEAR(out.values[i], std::min(1.0f, kColours.values[i] * f), 1e-6f);
  }
}

TEST(ColorJitterTest, ContrastIsTheDistanceFromTheMeanGrey) {
  for (int64_t n = 0; n < 20; ++n) {
    const float f = 2 * uniform01(words(n)[1]);  // strength 1: from 0 to 2
    const float mean = (grey(0) + grey(1)) / 2;
    const Image out = transformed("[{ type = 'color_jitter', contrast = 1 }]", kColours, n);
    for (size_t i = 0; i < 6; ++i)
      EXPECT_NEAR(out.values[i], std::clamp(kColours.values[i] * f + (1 - f) * mean, 0.0f, 1.0f), 1e-6f);
  }
}

TEST(ColorJitterTest, SaturationIsTheDistanceFromThePixelsGrey) {
  for (int64_t n = 0; n < 20; ++n) {
    const float f = 0.5f + uniform01(words(n)[2]);
    const Image out = transformed("[{ type = 'color_jitter', saturation = 0.5 }]", kColours, n);
    for (size_t i = 0; i < 6; ++i)
      EXPECT_NEAR(out.values[i],
                  std::clamp(kColours.values[i] * f + (1 - f) * grey(static_cast<int>(i % 2)), 0.0f, 1.0f), 1e-6f);
  }
}

TEST(ColorJitterTest, GreyImagesHaveNoSaturation) {
  EXPECT_THAT(transformed("[{ type = 'color_jitter', saturation = 1 }]", {{1, 1, 1}, {0.25f}}).values,
              ::testing::ElementsAre(0.25f));
  EXPECT_THAT(transformed("[{ type = 'color_jitter', contrast = 1 }]", {{1, 1, 1}, {0.25f}}).values,
              ::testing::ElementsAre(FloatNear(0.25f, 1e-6f)));
}

TEST(ColorJitterTest, MistakesAreNamed) {
  EXPECT_THAT(list_error("[{ type = 'color_jitter', brightness = -1 }]", {3, 4, 4}), HasSubstr("brightness"));
  EXPECT_THAT(list_error("[{ type = 'color_jitter' }]", {2, 4, 4}), HasSubstr("1 or 3 channels, these have 2"));
  EXPECT_THAT(list_error("[{ type = 'color_jitter' }]", {3, 4, 4}, false), HasSubstr("is random"));
}

}  // namespace
}  // namespace dtrain::data
