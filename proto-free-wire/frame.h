// A frame: a fixed header, a message's fields, its tensor bytes. FORMAT.md is the description of these bytes. Pure
// functions; FrameReader puts frames together from a stream.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "proto-free-wire/message.h"

namespace dtrain::wire {

constexpr uint16_t kProtocolVersion = 4;
constexpr size_t kHeaderBytes = 24;

// What a peer may make this side hold, in bytes. Looked at before anything is allocated.
struct FrameLimits {
  uint32_t fields = 0;
  uint32_t payload = 0;
};
constexpr FrameLimits kStrangerLimits{4u << 10, 0};         // until the handshake is done
constexpr FrameLimits kPeerLimits{256u << 10, 256u << 10};  // after it: one chunk

// Where a payload lies that does not travel: a place in a region that the sender has shared.
struct MemoryReference {
  uint32_t region = 0;
  uint64_t offset = 0;  // a multiple of kReferenceAlignment
  uint32_t bytes = 0;

  bool operator==(const MemoryReference&) const = default;
};
constexpr size_t kReferenceAlignment = 64;

struct FrameHeader {
  uint16_t version = kProtocolVersion;
  MessageType type{};
  uint32_t field_bytes = 0;
  uint32_t payload_bytes = 0;
  uint32_t head_crc = 0;      // CRC32C of the header's first 16 bytes and the fields
  uint32_t payload_crc = 0;   // CRC32C of the payload; 0 where there is none
  bool by_reference = false;  // the payload does not follow
};

// Appends header and fields to `out`; the caller sends `payload` behind them. Reads the payload for its checksum, so
// call it when the payload is about to be sent. REQUIRES the message within kPeerLimits, and a payload only where the
// message takes one: what this side sends is its own doing.
void append_head(const Message& message, ByteSpan payload, std::vector<std::byte>& out);

// The same for a payload that is referred to. REQUIRES a message that takes a payload.
void append_reference_head(const Message& message, const MemoryReference& payload, std::vector<std::byte>& out);

// The header alone. An error where it is no frame of this protocol, the type is unknown, or a length is over the
// limits. A frame of another version is not an error here: the caller looks at `version` first, and must not go on if
// it differs. REQUIRES bytes.size() >= kHeaderBytes.
Result<FrameHeader> parse_header(ByteSpan bytes, const FrameLimits& limits);

// Checksum and fields. `head`: the header and the fields, kHeaderBytes + field_bytes in all.
Result<Message> parse_head(const FrameHeader& header, ByteSpan head);

// Where the payload lies. REQUIRES header.by_reference, and the head that parse_head found good.
MemoryReference reference_of(const FrameHeader& header, ByteSpan head);

Status check_payload(const FrameHeader& header, ByteSpan payload);

}  // namespace dtrain::wire
