#include "proto-free-wire/frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "proto-free-wire/codec.h"
#include "tests/wire/golden.h"

namespace dtrain::wire {
namespace {

using ::testing::HasSubstr;

std::vector<std::byte> frame_of(const Message& message, ByteSpan payload = {}) {
  std::vector<std::byte> bytes;
  append_head(message, payload, bytes);
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  return bytes;
}

const float kTwo[] = {1.0f, -2.0f};
const ByteSpan kPayload = std::as_bytes(std::span(kTwo));

// The worked example of FORMAT.md.
TEST(Frame, GoldenBytes) {
  EXPECT_EQ(to_hex(frame_of(Offer{.step = 3, .block = 2, .first = 0, .last = 4})),
            "4454524e04001e001400000000000000128dc79f000000000300000000000000020000000000000004000000");
  EXPECT_EQ(to_hex(frame_of(ParameterChunk{.block = 2, .version = 4, .chunk = 3}, kPayload)),
            "4454524e040023001900000008000000f0be6ba8c9f236aa02000000040000000000000003000000ffffffffffffffff000000803f"
            "000000c0");
}

TEST(Frame, ReadsBackWhatItWrote) {
  for (const Golden& g : goldens()) {
    const ByteSpan payload = takes_payload(type_of(g.message)) ? kPayload : ByteSpan();
    const std::vector<std::byte> bytes = frame_of(g.message, payload);
    const Result<FrameHeader> header = parse_header(bytes, kPeerLimits);
    ASSERT_TRUE(header) << header.error().message;
    const Result<Message> message = parse_head(*header, ByteSpan(bytes).first(kHeaderBytes + header->field_bytes));
    ASSERT_TRUE(message) << message.error().message;
    EXPECT_EQ(*message, g.message);
    EXPECT_TRUE(check_payload(*header, payload));
  }
}

std::vector<std::byte> reference_frame(const MemoryReference& reference) {
  std::vector<std::byte> bytes;
  append_reference_head(ParameterChunk{.block = 2, .version = 4, .chunk = 3}, reference, bytes);
  return bytes;
}

// The worked example of FORMAT.md.
TEST(Frame, AReferenceStandsBehindTheFields) {
  const MemoryReference reference{7, 0x40000, 8};
  const std::vector<std::byte> bytes = reference_frame(reference);
  EXPECT_EQ(to_hex(bytes),
            "4454524e040023802500000008000000bf452ffa0000000002000000040000000000000003000000ffffffffffffffff0007000000"
            "0000040000000000");
  const Result<FrameHeader> header = parse_header(bytes, kPeerLimits);
  ASSERT_TRUE(header) << header.error().message;
  EXPECT_TRUE(header->by_reference);
  const Result<Message> message = parse_head(*header, bytes);
  ASSERT_TRUE(message) << message.error().message;
  EXPECT_EQ(*message, Message(ParameterChunk{.block = 2, .version = 4, .chunk = 3}));
  EXPECT_EQ(reference_of(*header, bytes), reference);
  EXPECT_FALSE(parse_header(bytes, kStrangerLimits));
}

TEST(Frame, AReferenceToNothingIsRefused) {
  const std::vector<std::byte> good = reference_frame({7, 64, 8});
  const auto with = [&](size_t at, uint32_t value) {
    std::vector<std::byte> bytes = good;
    store_le<uint32_t>(bytes.data() + at, value);
    return parse_header(bytes, kPeerLimits);
  };
  for (const auto& header : {with(12, 0), with(20, 1), with(8, 11)}) {
    ASSERT_FALSE(header);
    EXPECT_EQ(header.error().message, "ParameterChunk refers to nothing");
  }
  EXPECT_FALSE(with(12, kPeerLimits.payload + 1));
  // A message that takes no payload refers to none.
  std::vector<std::byte> bytes = frame_of(Offer{});
  store_le<uint16_t>(bytes.data() + 6, 30 | 0x8000);
  EXPECT_FALSE(parse_header(bytes, kPeerLimits));
}

TEST(Frame, LengthsOverTheLimitsAreRefused) {
  std::vector<std::byte> bytes = frame_of(Offer{});
  store_le<uint32_t>(bytes.data() + 8, 4097);
  const Result<FrameHeader> stranger = parse_header(bytes, kStrangerLimits);
  ASSERT_FALSE(stranger);
  EXPECT_EQ(stranger.error().message, "Offer announces 4097 bytes of fields, at most 4096 are allowed");
  EXPECT_TRUE(parse_header(bytes, kPeerLimits));
  store_le<uint32_t>(bytes.data() + 8, 0xffffffff);
  EXPECT_FALSE(parse_header(bytes, kPeerLimits));

  std::vector<std::byte> chunk = frame_of(ParameterChunk{}, kPayload);
  EXPECT_TRUE(parse_header(chunk, kPeerLimits));
  EXPECT_FALSE(parse_header(chunk, kStrangerLimits));
  store_le<uint32_t>(chunk.data() + 12, kPeerLimits.payload + 1);
  EXPECT_FALSE(parse_header(chunk, kPeerLimits));
}

TEST(Frame, PayloadBehindAMessageThatTakesNoneIsRefused) {
  std::vector<std::byte> bytes = frame_of(Offer{});
  store_le<uint32_t>(bytes.data() + 12, 4);
  const Result<FrameHeader> header = parse_header(bytes, kPeerLimits);
  ASSERT_FALSE(header);
  EXPECT_EQ(header.error().message, "Offer announces 4 bytes of payload, at most 0 are allowed");
}

TEST(Frame, OtherMagicOrTypeIsRefused) {
  const char http[] = "GET / HTTP/1.1\r\nHost: example.com\r\n";
  const Result<FrameHeader> stranger = parse_header(std::as_bytes(std::span(http)), kStrangerLimits);
  ASSERT_FALSE(stranger);
  EXPECT_THAT(stranger.error().message, HasSubstr("not a frame"));

  std::vector<std::byte> bytes = frame_of(Offer{});
  store_le<uint16_t>(bytes.data() + 6, 99);
  const Result<FrameHeader> unknown = parse_header(bytes, kPeerLimits);
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().message, HasSubstr("message 99"));
}

TEST(Frame, AnotherVersionIsTheCallersToAnswer) {
  std::vector<std::byte> bytes = frame_of(Hello{});
  store_le<uint16_t>(bytes.data() + 4, 7);
  store_le<uint32_t>(bytes.data() + 8, 0xffffffff);  // lengths of another version mean nothing here
  const Result<FrameHeader> header = parse_header(bytes, kStrangerLimits);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->version, 7);
}

TEST(Frame, EveryFlippedBitIsNoticed) {
  const std::vector<std::byte> whole = frame_of(NodeChunk{.step = 3, .block = 2, .chunk = 1}, kPayload);
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::vector<std::byte> bytes = whole;
    bytes[bit / 8] ^= std::byte(1u << bit % 8);
    const Result<FrameHeader> header = parse_header(bytes, kPeerLimits);
    if (!header || header->version != kProtocolVersion) continue;
    const size_t head = kHeaderBytes + header->field_bytes;
    if (head + header->payload_bytes != bytes.size()) continue;  // would wait for more, or find garbage behind it
    const bool good = parse_head(*header, ByteSpan(bytes).first(head)).has_value() &&
                      check_payload(*header, ByteSpan(bytes).subspan(head)).has_value();
    EXPECT_FALSE(good) << "bit " << bit;
  }
}

}  // namespace
}  // namespace dtrain::wire
