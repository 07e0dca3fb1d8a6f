// JPEG by libjpeg-turbo's TurboJPEG, baseline and progressive. The slow, exact inverse transform, so that what is
// decoded does not depend on the processor.
#include <fmt/format.h>
#include <turbojpeg.h>

#include <limits>
#include <memory>
#include <string_view>

#include "data/pixels.h"

namespace dtrain::data {
namespace {

// A progressive file can make a decoder go over all its pixels as often as it likes.
constexpr int kFlags = TJFLAG_ACCURATEDCT | TJFLAG_LIMITSCANS;

struct Destroy {
  void operator()(void* handle) const { tjDestroy(handle); }
};

// TurboJPEG goes on after a warning with grey where data are missing. Bytes too many between two markers cost nothing;
// other warnings mean that what was decoded is not the picture.
bool is_harmless(std::string_view warning) { return warning.find("extraneous bytes") != std::string_view::npos; }

}  // namespace

bool is_jpeg(ByteSpan file) {
  return file.size() >= 3 && file[0] == std::byte{0xff} && file[1] == std::byte{0xd8} && file[2] == std::byte{0xff};
}

Result<Pixels> decode_jpeg(ByteSpan file, int64_t max_pixels) {
  if (file.size() > std::numeric_limits<unsigned long>::max() / 2) return fail(ExitCode::kData, "it is too large");
  const std::unique_ptr<void, Destroy> decoder(tjInitDecompress());
  if (!decoder) return fail(ExitCode::kData, "there is no memory for a JPEG decoder");
  const auto* bytes = reinterpret_cast<const unsigned char*>(file.data());
  int width = 0, height = 0, subsampling = 0, colours = 0;
  if (tjDecompressHeader3(decoder.get(), bytes, file.size(), &width, &height, &subsampling, &colours) != 0)
    return fail(ExitCode::kData, fmt::format("its header is damaged: {}", tjGetErrorStr2(decoder.get())));
  DTRAIN_TRY(check_extent(width, height, max_pixels));

  const bool grey = colours == TJCS_GRAY, cmyk = colours == TJCS_CMYK || colours == TJCS_YCCK;
  Pixels out{grey ? 1 : 3, height, width, {}};
  const int format = grey ? TJPF_GRAY : cmyk ? TJPF_CMYK : TJPF_RGB;
  std::vector<uint8_t> decoded(static_cast<size_t>(width) * static_cast<size_t>(height) * (grey ? 1 : cmyk ? 4 : 3));
  if (tjDecompress2(decoder.get(), bytes, file.size(), decoded.data(), width, 0, height, format, kFlags) != 0) {
    const std::string_view reason = tjGetErrorStr2(decoder.get());
    if (tjGetErrorCode(decoder.get()) != TJERR_WARNING || !is_harmless(reason))
      return fail(ExitCode::kData, fmt::format("it does not decode: {}", reason));
  }
  if (cmyk) {
    out.bytes.resize(decoded.size() / 4 * 3);
    cmyk_to_rgb(decoded, out.bytes);
  } else {
    out.bytes = std::move(decoded);
  }
  return out;
}

}  // namespace dtrain::data
