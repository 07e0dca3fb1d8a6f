// A decoded picture as the decoders give it, and the one way to them: files of JPEG and PNG are told apart by their
// first bytes. The size is read from the header and held against a limit before anything is decoded or allocated.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace dtrain::data {

struct Pixels {
  int64_t channels = 3;  // 1: grey; 3: red, green, blue
  int64_t height = 0, width = 0;
  std::vector<uint8_t> bytes;  // [height, width, channels]
};

// Errors are the bare reason (ExitCode::kData). Grey pictures stay grey, palettes become colours, 16 bits become 8,
// transparency is dropped, CMYK becomes RGB. The orientation that a camera noted is not applied.
Result<Pixels> decode_image(ByteSpan file, int64_t max_pixels);
// As Adobe's files have it, inverted: R = C · K / 255.
void cmyk_to_rgb(std::span<const uint8_t> cmyk, std::span<uint8_t> rgb);

// For the decoders.
bool is_jpeg(ByteSpan file);
Result<Pixels> decode_jpeg(ByteSpan file, int64_t max_pixels);
bool is_png(ByteSpan file);
Result<Pixels> decode_png(ByteSpan file, int64_t max_pixels);
// Whether a header's claim is within bounds.
Status check_extent(int64_t width, int64_t height, int64_t max_pixels);

}  // namespace dtrain::data
