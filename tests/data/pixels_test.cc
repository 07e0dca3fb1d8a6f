#include "data/pixels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "tests/data/pictures.h"

namespace dtrain::data {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

constexpr int64_t kMany = 1 << 20;

Result<Pixels> decode(const std::string& file, int64_t max_pixels = kMany) {
  return decode_image(std::as_bytes(std::span(file.data(), file.size())), max_pixels);
}
std::string refusal(const std::string& file, int64_t max_pixels = kMany) {
  auto pixels = decode(file, max_pixels);
  if (pixels) return "";
  EXPECT_EQ(pixels.error().code, ExitCode::kData);
  return pixels.error().message;
}

std::vector<uint8_t> ramp(size_t n) {
  std::vector<uint8_t> out(n);
  for (size_t i = 0; i < n; ++i) out[i] = static_cast<uint8_t>(i * 7 % 251);
  return out;
}
std::vector<uint8_t> flat(int width, int height, std::vector<uint8_t> pixel) {
  std::vector<uint8_t> out;
  for (int i = 0; i < width * height; ++i) out.insert(out.end(), pixel.begin(), pixel.end());
  return out;
}
void expect_near(const Pixels& pixels, const std::vector<uint8_t>& wanted, int within) {
  ASSERT_EQ(pixels.bytes.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) ASSERT_NEAR(pixels.bytes[i], wanted[i], within) << i;
}

TEST(JpegTest, ColourAndGrey) {
  const auto red = flat(9, 17, {200, 30, 60});
  auto colour = decode(jpeg(red, 9, 17, TJPF_RGB, TJSAMP_420));
  ASSERT_TRUE(colour) << colour.error().message;
  EXPECT_EQ(colour->width, 9);
  EXPECT_EQ(colour->height, 17);
  EXPECT_EQ(colour->channels, 3);
  expect_near(*colour, red, 2);
  auto progressive = decode(jpeg(red, 9, 17, TJPF_RGB, TJSAMP_444, TJFLAG_PROGRESSIVE));
  ASSERT_TRUE(progressive);
  expect_near(*progressive, red, 2);
  auto grey = decode(jpeg(flat(8, 8, {77}), 8, 8, TJPF_GRAY, TJSAMP_GRAY));
  ASSERT_TRUE(grey);
  EXPECT_EQ(grey->channels, 1);
  EXPECT_THAT(grey->bytes, Each(77));
}

TEST(JpegTest, CmykAsAdobeWritesIt) {
  // Inverted ink: no cyan, half magenta, all yellow, a quarter of black.
  auto pixels = decode(jpeg(flat(8, 8, {255, 128, 0, 192}), 8, 8, TJPF_CMYK, TJSAMP_444));
  ASSERT_TRUE(pixels) << pixels.error().message;
  EXPECT_EQ(pixels->channels, 3);
  expect_near(*pixels, flat(8, 8, {192, 96, 0}), 3);
  std::vector<uint8_t> rgb(3);
  cmyk_to_rgb(std::vector<uint8_t>{255, 100, 3, 51}, rgb);
  EXPECT_THAT(rgb, ElementsAre(51, 20, 1));
}

TEST(JpegTest, EveryCutIsRefused) {
  const std::string whole = jpeg(ramp(24 * 24 * 3), 24, 24);
  EXPECT_EQ(refusal(whole), "");
  for (size_t n = 0; n + 2 < whole.size(); ++n)
    EXPECT_NE(refusal(whole.substr(0, n)), "") << n << " of " << whole.size();
}

TEST(JpegTest, NoFlipCrashes) {
  const std::string whole = jpeg(ramp(16 * 16 * 3), 16, 16);
  for (size_t at = 0; at < whole.size(); ++at)
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = whole;
      flipped[at] = static_cast<char>(flipped[at] ^ (1 << bit));
      auto pixels = decode(flipped);
      if (!pixels) continue;
      EXPECT_EQ(pixels->bytes.size(), static_cast<size_t>(pixels->width * pixels->height * pixels->channels));
    }
}

TEST(JpegTest, ClaimsAreHeldAgainstTheLimitBeforeDecoding) {
  std::string file = jpeg(ramp(16 * 16 * 3), 16, 16);
  EXPECT_THAT(refusal(file, 255), HasSubstr("claims 16 x 16 pixels, more than 255 (max_pixels)"));
  EXPECT_EQ(refusal(file, 256), "");
  const size_t frame = file.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  for (size_t i = 5; i < 9; ++i) file[frame + i] = '\xfe';
  EXPECT_THAT(refusal(file), HasSubstr("claims 65278 x 65278 pixels"));
}

TEST(PngTest, ColourIsExact) {
  const auto bytes = ramp(5 * 3 * 3);
  const std::string rows(bytes.begin(), bytes.end());
  for (int interlace : {PNG_INTERLACE_NONE, PNG_INTERLACE_ADAM7}) {
    auto pixels = decode(png(rows, 5, 3, {PNG_COLOR_TYPE_RGB, 8, interlace, {}}));
    ASSERT_TRUE(pixels) << pixels.error().message;
    EXPECT_EQ(pixels->channels, 3);
    EXPECT_EQ(pixels->width, 5);
    EXPECT_EQ(pixels->height, 3);
    EXPECT_THAT(pixels->bytes, ElementsAreArray(bytes));
  }
}

TEST(PngTest, EveryKindBecomesEightBitsOfGreyOrColour) {
  EXPECT_THAT(decode(png("\x01\x02\x03\x04", 1, 1, {PNG_COLOR_TYPE_RGB_ALPHA, 8, 0, {}}))->bytes, ElementsAre(1, 2, 3));
  EXPECT_THAT(decode(png("\x05\x06", 1, 1, {PNG_COLOR_TYPE_GRAY_ALPHA, 8, 0, {}}))->bytes, ElementsAre(5));
  EXPECT_THAT(decode(png("\x80\x80\x01\x01", 2, 1, {PNG_COLOR_TYPE_GRAY, 16, 0, {}}))->bytes, ElementsAre(128, 1));
  EXPECT_THAT(decode(png("\xa0", 3, 1, {PNG_COLOR_TYPE_GRAY, 1, 0, {}}))->bytes, ElementsAre(255, 0, 255));
  EXPECT_THAT(decode(png("\x10", 2, 1, {PNG_COLOR_TYPE_PALETTE, 4, 0, {{9, 8, 7}, {6, 5, 4}}}))->bytes,
              ElementsAre(6, 5, 4, 9, 8, 7));
  EXPECT_EQ(decode(png("\x10", 2, 1, {PNG_COLOR_TYPE_PALETTE, 4, 0, {{9, 8, 7}, {6, 5, 4}}}))->channels, 3);
}

TEST(PngTest, EveryCutAndEveryFlipOfABitIsRefusedOrTheSame) {
  const auto bytes = ramp(4 * 4 * 3);
  const std::string whole = png(std::string(bytes.begin(), bytes.end()), 4, 4);
  for (size_t n = 0; n < whole.size(); ++n) EXPECT_NE(refusal(whole.substr(0, n)), "") << n;
  for (size_t at = 0; at < whole.size(); ++at)
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = whole;
      flipped[at] = static_cast<char>(flipped[at] ^ (1 << bit));
      auto pixels = decode(flipped);
      if (!pixels) continue;
      EXPECT_THAT(pixels->bytes, ElementsAreArray(bytes)) << at << ":" << bit;
    }
}

TEST(PngTest, ClaimsAreHeldAgainstTheLimitBeforeDecoding) {
  std::string file = png(std::string(12, 'x'), 2, 2);
  EXPECT_THAT(refusal(file, 3), HasSubstr("claims 2 x 2 pixels, more than 3"));
  for (size_t i = 16; i < 24; ++i) file[i] = i % 4 == 0 ? '\x7f' : '\xff';
  const uint32_t check = static_cast<uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(file.data()) + 12, 17));
  for (size_t i = 0; i < 4; ++i) file[29 + i] = static_cast<char>(check >> (24 - 8 * i));
  EXPECT_THAT(refusal(file), HasSubstr("claims 2147483647 x 2147483647 pixels"));
}

TEST(PixelsTest, OtherFilesAreRefused) {
  EXPECT_THAT(refusal(""), HasSubstr("neither a JPEG nor a PNG"));
  EXPECT_THAT(refusal("GIF89a and so on"), HasSubstr("neither a JPEG nor a PNG"));
}

}  // namespace
}  // namespace dtrain::data
