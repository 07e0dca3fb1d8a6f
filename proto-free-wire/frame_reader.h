// Puts frames together from a stream of bytes, for one connection. No I/O: the owner reads into space() and says how
// much came. One thread. Small frames are parsed where they were read; a payload is read straight into a buffer of its
// own, aligned for tensors and reused, so that it is not copied but for the few bytes read along with its header.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "proto-free-wire/frame.h"
#include "tensor/buffer.h"

namespace dtrain::wire {

struct Frame {
  Message message;
  ByteSpan payload;                               // aligned as a Buffer; valid until the reader's next call
  std::optional<MemoryReference> reference = {};  // where the payload lies instead
};

class FrameReader {
 public:
  explicit FrameReader(const FrameLimits& limits) : limits_(limits) {}

  // For the frames from the next one on; memory grows only when a frame within the limits needs it.
  void set_limits(const FrameLimits& limits) { limits_ = limits; }

  // Where the next bytes of the stream go, the first span first; the second may be empty. Never empty altogether after
  // next() returned nothing.
  std::array<MutableByteSpan, 2> space();
  // REQUIRES n <= what space() offered just before.
  void filled(size_t n);

  // The next whole frame, nothing where bytes are missing, or what is wrong with the stream: after an error the reader
  // must not be used again.
  Result<std::optional<Frame>> next();

  // The version in a header that was not ours; set when next() has failed for that reason.
  std::optional<uint16_t> foreign_version() const { return foreign_version_; }
  // Some bytes of a frame are here, but not all.
  bool inside_frame() const { return begin_ != end_ || message_.has_value(); }

 private:
  size_t buffered() const { return end_ - begin_; }
  size_t payload_missing() const {
    return message_ && !header_.by_reference ? header_.payload_bytes - payload_filled_ : 0;
  }
  Status parse_head_if_whole();

  FrameLimits limits_;
  std::vector<std::byte> ring_;  // bytes begin_ … end_ are read and not yet parsed
  size_t begin_ = 0, end_ = 0;
  FrameHeader header_;
  std::optional<Message> message_;  // its head is parsed, its payload is on the way
  std::optional<MemoryReference> reference_;
  Buffer payload_;
  size_t payload_filled_ = 0;
  std::optional<uint16_t> foreign_version_;
};

}  // namespace dtrain::wire
