#include "data/gunzip.h"

#include <zlib.h>

#include <algorithm>

#include "base/check.h"

namespace dtrain::data {
namespace {

constexpr size_t kMaxCall = 1u << 30;  // zlib counts in 32 bits
constexpr int kGzipOnly = 15 + 16;

}  // namespace

struct Gunzip::Impl {
  z_stream stream{};
  ByteSpan rest;
  bool ended = false;
};

Gunzip::Gunzip(ByteSpan compressed) : impl_(std::make_unique<Impl>()) {
  impl_->rest = compressed;
  DTRAIN_CHECK(inflateInit2(&impl_->stream, kGzipOnly) == Z_OK);
}
Gunzip::~Gunzip() { inflateEnd(&impl_->stream); }

bool Gunzip::is_gzip(ByteSpan bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
}

Result<size_t> Gunzip::read(MutableByteSpan into) {
  z_stream& z = impl_->stream;
  size_t done = 0;
  while (done < into.size() && !impl_->ended) {
    const size_t in = std::min(impl_->rest.size(), kMaxCall), out = std::min(into.size() - done, kMaxCall);
    z.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(impl_->rest.data()));
    z.avail_in = static_cast<uInt>(in);
    z.next_out = reinterpret_cast<Bytef*>(into.data() + done);
    z.avail_out = static_cast<uInt>(out);
    const int result = inflate(&z, Z_NO_FLUSH);
    impl_->rest = impl_->rest.subspan(in - z.avail_in);
    done += out - z.avail_out;
    if (result == Z_STREAM_END) {
      if (is_gzip(impl_->rest)) {
        DTRAIN_CHECK(inflateReset(&z) == Z_OK);
      } else {
        impl_->ended = true;
      }
    } else if (result == Z_BUF_ERROR || (result == Z_OK && impl_->rest.empty() && z.avail_out > 0)) {
      return fail(ExitCode::kData, "the gzip stream is cut");
    } else if (result != Z_OK) {
      return fail(ExitCode::kData, std::string("the gzip stream is damaged: ") + (z.msg ? z.msg : "no deflate"));
    }
  }
  return done;
}

}  // namespace dtrain::data
