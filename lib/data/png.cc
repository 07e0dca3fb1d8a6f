// PNG by libpng, all its types, as 8 bits of grey or of red, green and blue; values as they stand in the file, without
// the corrections that its gamma or profile ask for. libpng ends what goes wrong by longjmp: between setjmp and it only
// plain values are alive.
#include <fmt/format.h>
#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>

#include "data/pixels.h"

namespace dtrain::data {
namespace {

// One file on its way through libpng.
struct Reading {
  ByteSpan rest;
  char reason[128] = "";
  png_structp png = nullptr;
  png_infop info = nullptr;

  ~Reading() { png_destroy_read_struct(&png, &info, nullptr); }
};

void on_error(png_structp png, png_const_charp message) {
  auto* reading = static_cast<Reading*>(png_get_error_ptr(png));
  std::strncpy(reading->reason, message, sizeof(reading->reason) - 1);
  std::longjmp(*png_set_longjmp_fn(png, std::longjmp, sizeof(jmp_buf)), 1);
}
void on_warning(png_structp, png_const_charp) {}

void on_read(png_structp png, png_bytep into, size_t n) {
  auto* reading = static_cast<Reading*>(png_get_io_ptr(png));
  if (n > reading->rest.size()) png_error(png, "it ends too early");
  std::memcpy(into, reading->rest.data(), n);
  reading->rest = reading->rest.subspan(n);
}

bool read_header(Reading& reading) {
  if (setjmp(png_jmpbuf(reading.png))) return false;
  png_read_info(reading.png, reading.info);
  return true;
}

// Asks for 8 bits of grey or RGB; the bytes of a row, 0 after an error.
size_t set_transforms(Reading& reading) {
  if (setjmp(png_jmpbuf(reading.png))) return 0;
  png_set_expand(reading.png);  // palettes, less than 8 bits
  png_set_scale_16(reading.png);
  png_set_strip_alpha(reading.png);
  png_set_interlace_handling(reading.png);
  png_read_update_info(reading.png, reading.info);
  return png_get_rowbytes(reading.png, reading.info);
}

bool read_rows(Reading& reading, png_bytep* rows) {
  if (setjmp(png_jmpbuf(reading.png))) return false;
  png_read_image(reading.png, rows);
  png_read_end(reading.png, nullptr);
  return true;
}

}  // namespace

bool is_png(ByteSpan file) {
  return file.size() >= 8 && png_sig_cmp(reinterpret_cast<png_const_bytep>(file.data()), 0, 8) == 0;
}

Result<Pixels> decode_png(ByteSpan file, int64_t max_pixels) {
  Reading reading;
  reading.rest = file;
  reading.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reading, on_error, on_warning);
  if (reading.png) reading.info = png_create_info_struct(reading.png);
  if (!reading.png || !reading.info) return fail(ExitCode::kData, "there is no memory for a PNG decoder");
  const auto failed = [&](const char* what) {
    return fail(ExitCode::kData, fmt::format("{}: {}", what, reading.reason));
  };
  png_set_read_fn(reading.png, &reading, on_read);
  // What is larger is refused below, with our own words.
  png_set_user_limits(reading.png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
  if (!read_header(reading)) return failed("its header is damaged");
  const int64_t width = png_get_image_width(reading.png, reading.info);
  const int64_t height = png_get_image_height(reading.png, reading.info);
  DTRAIN_TRY(check_extent(width, height, max_pixels));
  const size_t row_bytes = set_transforms(reading);
  if (row_bytes == 0) return failed("its header is damaged");
  Pixels out{png_get_channels(reading.png, reading.info), height, width, {}};
  if ((out.channels != 1 && out.channels != 3) || row_bytes != static_cast<size_t>(width * out.channels))
    return fail(ExitCode::kData, fmt::format("it has {} channels", out.channels));
  out.bytes.resize(row_bytes * static_cast<size_t>(height));
  std::vector<png_bytep> rows(static_cast<size_t>(height));
  for (size_t y = 0; y < rows.size(); ++y) rows[y] = out.bytes.data() + y * row_bytes;
  if (!read_rows(reading, rows.data())) return failed("it does not decode");
  return out;
}

}  // namespace dtrain::data
