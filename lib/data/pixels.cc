#include "data/pixels.h"

#include <fmt/format.h>

namespace dtrain::data {

Status check_extent(int64_t width, int64_t height, int64_t max_pixels) {
  if (width < 1 || height < 1) return fail(ExitCode::kData, fmt::format("it claims {} x {} pixels", width, height));
  if (width > max_pixels / height)
    return fail(ExitCode::kData,
                fmt::format("it claims {} x {} pixels, more than {} (max_pixels)", width, height, max_pixels));
  return {};
}

Result<Pixels> decode_image(ByteSpan file, int64_t max_pixels) {
  if (is_jpeg(file)) return decode_jpeg(file, max_pixels);
  if (is_png(file)) return decode_png(file, max_pixels);
  return fail(ExitCode::kData, "it begins like neither a JPEG nor a PNG file");
}

void cmyk_to_rgb(std::span<const uint8_t> cmyk, std::span<uint8_t> rgb) {
  for (size_t i = 0; i < rgb.size() / 3; ++i)
    for (size_t c = 0; c < 3; ++c)
      rgb[3 * i + c] = static_cast<uint8_t>((cmyk[4 * i + c] * cmyk[4 * i + 3] + 127) / 255);
}

}  // namespace dtrain::data
