// Small JPEG and PNG files for tests, encoded by the libraries themselves.
#pragma once

#include <gtest/gtest.h>
#include <png.h>
#include <turbojpeg.h>

#include <cstdint>
#include <string>
#include <vector>

namespace dtrain::data {

// `pixels` interleaved, as TJPF says.
inline std::string jpeg(const std::vector<uint8_t>& pixels, int width, int height, int format = TJPF_RGB,
                        int subsampling = TJSAMP_444, int flags = 0) {
  const tjhandle encoder = tjInitCompress();
  unsigned char* out = nullptr;
  unsigned long size = 0;
  EXPECT_EQ(tjCompress2(encoder, pixels.data(), width, 0, height, format, &out, &size, subsampling, 100, flags), 0)
      << tjGetErrorStr2(encoder);
  std::string file(reinterpret_cast<const char*>(out), size);
  tjFree(out);
  tjDestroy(encoder);
  return file;
}

struct PngKind {
  int colour = PNG_COLOR_TYPE_RGB;
  int depth = 8;
  int interlace = PNG_INTERLACE_NONE;
  std::vector<png_color> palette;
};

// `rows` as they stand in the file, of equal length each.
inline std::string png(const std::string& rows, int width, int height, const PngKind& kind = {}) {
  std::string file;
  png_structp writer = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(writer);
  png_set_write_fn(
      writer, &file,
      [](png_structp p, png_bytep bytes, size_t n) {
        static_cast<std::string*>(png_get_io_ptr(p))->append(reinterpret_cast<const char*>(bytes), n);
      },
      [](png_structp) {});
  png_set_IHDR(writer, info, static_cast<png_uint_32>(width), static_cast<png_uint_32>(height), kind.depth, kind.colour,
               kind.interlace, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  if (!kind.palette.empty()) png_set_PLTE(writer, info, kind.palette.data(), static_cast<int>(kind.palette.size()));
  png_write_info(writer, info);
  std::vector<png_bytep> pointers;
  const size_t stride = rows.size() / static_cast<size_t>(height);
  for (size_t y = 0; y < static_cast<size_t>(height); ++y)
    pointers.push_back(reinterpret_cast<png_bytep>(const_cast<char*>(rows.data())) + y * stride);
  png_write_image(writer, pointers.data());
  png_write_end(writer, nullptr);
  png_destroy_write_struct(&writer, &info);
  return file;
}

}  // namespace dtrain::data
