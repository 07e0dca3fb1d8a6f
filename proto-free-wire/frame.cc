#include "proto-free-wire/frame.h"

#include <fmt/format.h>

#include <cstring>
#include <iterator>

#include "base/check.h"
#include "base/crc32c.h"
#include "proto-free-wire/codec.h"

namespace dtrain::wire {
namespace {

constexpr char kMagic[4] = {'D', 'T', 'R', 'N'};
constexpr size_t kChecked = 16;  // bytes of the header that its checksum covers
// In `type`: behind the fields there is a reference, region u32 and offset u64, and no payload follows.
constexpr uint16_t kByReference = 0x8000;
constexpr size_t kReferenceBytes = 12;

// Room for a header and the fields behind it; where they begin.
size_t begin_head(const Message& message, std::vector<std::byte>& out) {
  const size_t start = out.size();
  out.resize(start + kHeaderBytes);
  encode(message, out);
  return start;
}

// The header, once all that its checksum covers is behind it.
void finish_head(const Message& message, size_t payload_bytes, uint16_t flags, uint32_t payload_crc, size_t start,
                 std::vector<std::byte>& out) {
  const MessageType type = type_of(message);
  const size_t field_bytes = out.size() - start - kHeaderBytes;
  DTRAIN_CHECK(field_bytes <= kPeerLimits.fields, "{} has {} bytes of fields", name_of(type), field_bytes);
  DTRAIN_CHECK(payload_bytes <= kPeerLimits.payload, "{} has {} bytes of payload", name_of(type), payload_bytes);
  DTRAIN_CHECK(payload_bytes == 0 || takes_payload(type), "{} takes no payload", name_of(type));
  std::byte* header = out.data() + start;
  std::memcpy(header, kMagic, sizeof(kMagic));
  store_le<uint16_t>(header + 4, kProtocolVersion);
  store_le<uint16_t>(header + 6, static_cast<uint16_t>(type) | flags);
  store_le<uint32_t>(header + 8, static_cast<uint32_t>(field_bytes));
  store_le<uint32_t>(header + 12, static_cast<uint32_t>(payload_bytes));
  const uint32_t crc = crc32c(ByteSpan(header + kHeaderBytes, field_bytes), crc32c(ByteSpan(header, kChecked)));
  store_le<uint32_t>(header + 16, crc);
  store_le<uint32_t>(header + 20, payload_crc);
}

}  // namespace

void append_head(const Message& message, ByteSpan payload, std::vector<std::byte>& out) {
  const size_t start = begin_head(message, out);
  finish_head(message, payload.size(), 0, payload.empty() ? 0 : crc32c(payload), start, out);
}

void append_reference_head(const Message& message, const MemoryReference& payload, std::vector<std::byte>& out) {
  const size_t start = begin_head(message, out);
  std::byte reference[kReferenceBytes];
  store_le<uint32_t>(reference, payload.region);
  store_le<uint64_t>(reference + 4, payload.offset);
  out.insert(out.end(), std::begin(reference), std::end(reference));
  finish_head(message, payload.bytes, kByReference, 0, start, out);
}

Result<FrameHeader> parse_header(ByteSpan bytes, const FrameLimits& limits) {
  DTRAIN_CHECK(bytes.size() >= kHeaderBytes);
  const std::byte* p = bytes.data();
  if (std::memcmp(p, kMagic, sizeof(kMagic)) != 0) {
    return fail(ExitCode::kPeerLost, "what it sent is not a frame of dtrain");
  }
  FrameHeader header;
  header.version = load_le<uint16_t>(p + 4);
  const auto type = load_le<uint16_t>(p + 6);
  header.type = static_cast<MessageType>(type & ~kByReference);
  header.by_reference = (type & kByReference) != 0;
  header.field_bytes = load_le<uint32_t>(p + 8);
  header.payload_bytes = load_le<uint32_t>(p + 12);
  header.head_crc = load_le<uint32_t>(p + 16);
  header.payload_crc = load_le<uint32_t>(p + 20);
  if (header.version != kProtocolVersion) return header;
  DTRAIN_TRY(make_default(header.type));
  if (header.field_bytes > limits.fields) {
    return fail(ExitCode::kPeerLost, fmt::format("{} announces {} bytes of fields, at most {} are allowed",
                                                 name_of(header.type), header.field_bytes, limits.fields));
  }
  const uint32_t payload_limit = takes_payload(header.type) ? limits.payload : 0;
  if (header.payload_bytes > payload_limit) {
    return fail(ExitCode::kPeerLost, fmt::format("{} announces {} bytes of payload, at most {} are allowed",
                                                 name_of(header.type), header.payload_bytes, payload_limit));
  }
  if (header.by_reference &&
      (header.payload_bytes == 0 || header.payload_crc != 0 || header.field_bytes < kReferenceBytes))
    return fail(ExitCode::kPeerLost, fmt::format("{} refers to nothing", name_of(header.type)));
  return header;
}

Result<Message> parse_head(const FrameHeader& header, ByteSpan head) {
  DTRAIN_CHECK(head.size() == kHeaderBytes + header.field_bytes);
  const ByteSpan fields = head.subspan(kHeaderBytes);
  if (crc32c(fields, crc32c(head.first(kChecked))) != header.head_crc) {
    return fail(ExitCode::kPeerLost, fmt::format("checksum of {} does not match", name_of(header.type)));
  }
  return decode(header.type, fields.first(fields.size() - (header.by_reference ? kReferenceBytes : 0)));
}

MemoryReference reference_of(const FrameHeader& header, ByteSpan head) {
  DTRAIN_CHECK(header.by_reference && head.size() == kHeaderBytes + header.field_bytes);
  const std::byte* p = head.data() + head.size() - kReferenceBytes;
  return {load_le<uint32_t>(p), load_le<uint64_t>(p + 4), header.payload_bytes};
}

Status check_payload(const FrameHeader& header, ByteSpan payload) {
  const uint32_t crc = payload.empty() ? 0 : crc32c(payload);
  if (payload.size() != header.payload_bytes || crc != header.payload_crc) {
    return fail(ExitCode::kPeerLost, fmt::format("checksum of the payload of {} does not match", name_of(header.type)));
  }
  return {};
}

}  // namespace dtrain::wire
