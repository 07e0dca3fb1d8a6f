#include "proto-free-wire/frame_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace dtrain::wire {
namespace {

// Room for many small frames in one read, small enough that little is read past a header and then copied.
constexpr size_t kRing = 16u << 10;
// Behind a payload only this much is read along: the next header and a few small frames.
constexpr size_t kReadAhead = 1u << 10;

}  // namespace

std::array<MutableByteSpan, 2> FrameReader::space() {
  if (begin_ > 0) {  // what is not parsed yet moves to the front; it is less than a frame's head
    std::memmove(ring_.data(), ring_.data() + begin_, buffered());
    end_ = buffered();
    begin_ = 0;
  }
  // Before the handshake a frame is small, and so is what a stranger costs.
  size_t wanted = std::min<size_t>(kRing, kHeaderBytes + limits_.fields);
  if (!message_ && buffered() >= kHeaderBytes) wanted = std::max(wanted, kHeaderBytes + header_.field_bytes);
  if (ring_.size() < wanted) ring_.resize(wanted);

  const size_t missing = payload_missing();
  if (missing == 0) return {MutableByteSpan(ring_).subspan(end_), MutableByteSpan()};
  const size_t ahead = std::min(kReadAhead, ring_.size() - end_);
  return {MutableByteSpan(payload_.data() + payload_filled_, missing), MutableByteSpan(ring_).subspan(end_, ahead)};
}

void FrameReader::filled(size_t n) {
  const size_t into_payload = std::min(n, payload_missing());
  payload_filled_ += into_payload;
  end_ += n - into_payload;
  DTRAIN_CHECK(end_ <= ring_.size());
}

Status FrameReader::parse_head_if_whole() {
  if (buffered() < kHeaderBytes) return {};
  const ByteSpan bytes = ByteSpan(ring_).subspan(begin_, buffered());
  DTRAIN_TRY_ASSIGN(header_, parse_header(bytes, limits_));
  if (header_.version != kProtocolVersion) {
    foreign_version_ = header_.version;
    return fail(ExitCode::kUsage, fmt::format("it speaks version {} of the protocol, this program version {}",
                                              header_.version, kProtocolVersion));
  }
  const size_t head = kHeaderBytes + header_.field_bytes;
  if (bytes.size() < head) return {};
  DTRAIN_TRY_ASSIGN(message_, parse_head(header_, bytes.first(head)));
  begin_ += head;
  payload_filled_ = 0;
  reference_.reset();
  if (header_.by_reference) {
    reference_ = reference_of(header_, bytes.first(head));
    return {};
  }
  if (header_.payload_bytes > 0) {
    if (payload_.size() < header_.payload_bytes) payload_ = Buffer(limits_.payload);
    payload_filled_ = std::min<size_t>(buffered(), header_.payload_bytes);
    std::memcpy(payload_.data(), ring_.data() + begin_, payload_filled_);
    begin_ += payload_filled_;
  }
  return {};
}

Result<std::optional<Frame>> FrameReader::next() {
  if (!message_) DTRAIN_TRY(parse_head_if_whole());
  if (!message_ || payload_missing() > 0) return std::optional<Frame>();
  const ByteSpan payload(payload_.data(), header_.by_reference ? 0 : header_.payload_bytes);
  if (!header_.by_reference) DTRAIN_TRY(check_payload(header_, payload));
  std::optional<Frame> frame(Frame{std::move(*message_), payload, reference_});
  message_.reset();
  return frame;
}

}  // namespace dtrain::wire
