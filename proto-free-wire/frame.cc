#include "proto-free-wire/frame.h"

#include <fmt/format.h>

#include <cstring>

#include "base/check.h"
#include "base/crc32c.h"
#include "proto-free-wire/codec.h"

namespace dtrain::wire {
namespace {

constexpr char kMagic[4] = {'D', 'T', 'R', 'N'};
constexpr size_t kChecked = 16;  // bytes of the header that its checksum covers

}  // namespace

void append_head(const Message& message, ByteSpan payload, std::vector<std::byte>& out) {
  const MessageType type = type_of(message);
  const size_t start = out.size();
  out.resize(start + kHeaderBytes);
  encode(message, out);
  const size_t field_bytes = out.size() - start - kHeaderBytes;
  DTRAIN_CHECK(field_bytes <= kPeerLimits.fields, "{} has {} bytes of fields", name_of(type), field_bytes);
  DTRAIN_CHECK(payload.size() <= kPeerLimits.payload, "{} has {} bytes of payload", name_of(type), payload.size());
  DTRAIN_CHECK(payload.empty() || takes_payload(type), "{} takes no payload", name_of(type));

  std::byte* header = out.data() + start;
  std::memcpy(header, kMagic, sizeof(kMagic));
  store_le<uint16_t>(header + 4, kProtocolVersion);
  store_le<uint16_t>(header + 6, static_cast<uint16_t>(type));
  store_le<uint32_t>(header + 8, static_cast<uint32_t>(field_bytes));
  store_le<uint32_t>(header + 12, static_cast<uint32_t>(payload.size()));
  const uint32_t crc = crc32c(ByteSpan(header + kHeaderBytes, field_bytes), crc32c(ByteSpan(header, kChecked)));
  store_le<uint32_t>(header + 16, crc);
  store_le<uint32_t>(header + 20, payload.empty() ? 0 : crc32c(payload));
}

Result<FrameHeader> parse_header(ByteSpan bytes, const FrameLimits& limits) {
  DTRAIN_CHECK(bytes.size() >= kHeaderBytes);
  const std::byte* p = bytes.data();
  if (std::memcmp(p, kMagic, sizeof(kMagic)) != 0) {
    return fail(ExitCode::kPeerLost, "what it sent is not a frame of dtrain");
  }
  FrameHeader header;
  header.version = load_le<uint16_t>(p + 4);
  header.type = static_cast<MessageType>(load_le<uint16_t>(p + 6));
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
  return header;
}

Result<Message> parse_head(const FrameHeader& header, ByteSpan head) {
  DTRAIN_CHECK(head.size() == kHeaderBytes + header.field_bytes);
  const ByteSpan fields = head.subspan(kHeaderBytes);
  if (crc32c(fields, crc32c(head.first(kChecked))) != header.head_crc) {
    return fail(ExitCode::kPeerLost, fmt::format("checksum of {} does not match", name_of(header.type)));
  }
  return decode(header.type, fields);
}

Status check_payload(const FrameHeader& header, ByteSpan payload) {
  const uint32_t crc = payload.empty() ? 0 : crc32c(payload);
  if (payload.size() != header.payload_bytes || crc != header.payload_crc) {
    return fail(ExitCode::kPeerLost, fmt::format("checksum of the payload of {} does not match", name_of(header.type)));
  }
  return {};
}

}  // namespace dtrain::wire
