#include "proto-free-wire/frame_reader.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "proto-free-wire/codec.h"
#include "tests/wire/golden.h"

namespace dtrain::wire {
namespace {

using ::testing::HasSubstr;

void append_frame(const Message& message, ByteSpan payload, std::vector<std::byte>& out) {
  append_head(message, payload, out);
  out.insert(out.end(), payload.begin(), payload.end());
}

std::vector<std::byte> bytes_of(size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(n);
  for (std::byte& b : bytes) b = std::byte(random());
  return bytes;
}

// Hands `bytes` to the reader as a socket would, at most `most` at a time; what came out, as text and payloads.
struct Outcome {
  std::vector<Message> messages;
  std::vector<std::vector<std::byte>> payloads;
  std::string error;
};

Outcome feed(FrameReader& reader, ByteSpan bytes, size_t most) {
  Outcome outcome;
  while (true) {
    while (true) {
      Result<std::optional<Frame>> frame = reader.next();
      if (!frame) {
        outcome.error = frame.error().message;
        return outcome;
      }
      if (!*frame) break;
      outcome.messages.push_back((*frame)->message);
      outcome.payloads.emplace_back((*frame)->payload.begin(), (*frame)->payload.end());
    }
    if (bytes.empty()) return outcome;
    size_t filled = 0;
    for (const MutableByteSpan space : reader.space()) {
      const size_t n = std::min({space.size(), bytes.size(), most - filled});
      if (n > 0) std::memcpy(space.data(), bytes.data(), n);
      bytes = bytes.subspan(n);
      filled += n;
      if (n < space.size()) break;
    }
    if (filled == 0) {
      outcome.error = "the reader offers no space";
      return outcome;
    }
    reader.filled(filled);
  }
}

std::vector<std::byte> mixed_stream(Outcome* expected) {
  std::vector<std::byte> stream;
  uint32_t n = 0;
  for (int round = 0; round < 3; ++round) {
    for (const Golden& g : goldens()) {
      std::vector<std::byte> payload;
      ++n;
      if (takes_payload(type_of(g.message))) payload = bytes_of(round == 2 ? 256u << 10 : 40 + n, n);
      append_frame(g.message, payload, stream);
      expected->messages.push_back(g.message);
      expected->payloads.push_back(payload);
    }
    append_frame(Failure{.exit_code = 1, .reason = std::string(100'000, 'x')}, {}, stream);
    expected->messages.push_back(Failure{.exit_code = 1, .reason = std::string(100'000, 'x')});
    expected->payloads.emplace_back();
  }
  return stream;
}

TEST(FrameReader, FindsTheSameFramesHoweverTheBytesCome) {
  Outcome expected;
  const std::vector<std::byte> stream = mixed_stream(&expected);
  for (const size_t most : {1u, 7u, 24u, 25u, 1000u, 65'536u, 10'000'000u}) {
    FrameReader reader(kPeerLimits);
    const Outcome outcome = feed(reader, stream, most);
    EXPECT_EQ(outcome.error, "");
    EXPECT_EQ(outcome.messages, expected.messages);
    EXPECT_EQ(outcome.payloads, expected.payloads);
    EXPECT_FALSE(reader.inside_frame());
  }
}

TEST(FrameReader, PayloadIsAlignedForTensors) {
  std::vector<std::byte> stream;
  append_frame(Heartbeat{}, {}, stream);
  append_frame(ParameterChunk{}, bytes_of(8, 1), stream);
  FrameReader reader(kPeerLimits);
  std::memcpy(reader.space()[0].data(), stream.data(), stream.size());
  reader.filled(stream.size());
  ASSERT_TRUE((*reader.next())->payload.empty());
  const ByteSpan payload = (*reader.next())->payload;
  ASSERT_EQ(payload.size(), 8u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(payload.data()) % Buffer::kAlignment, 0u);
}

TEST(FrameReader, ManySmallFramesInOneRead) {
  std::vector<std::byte> stream;
  for (int i = 0; i < 100; ++i) append_frame(Offer{.step = i}, {}, stream);
  FrameReader reader(kPeerLimits);
  ASSERT_GE(reader.space()[0].size(), stream.size());
}

TEST(FrameReader, AStrangerCostsNoMoreThanItsLimit) {
  FrameReader reader(kStrangerLimits);
  EXPECT_LE(reader.space()[0].size(), kHeaderBytes + kStrangerLimits.fields);
  std::vector<std::byte> stream;
  append_frame(Failure{.exit_code = 1, .reason = std::string(5000, 'x')}, {}, stream);
  EXPECT_THAT(feed(reader, stream, 100).error, HasSubstr("at most 4096 are allowed"));
}

TEST(FrameReader, CutAtEveryOffsetIsAnUnfinishedFrame) {
  std::vector<std::byte> stream;
  append_frame(NodeChunk{.step = 1}, bytes_of(16, 1), stream);
  for (size_t n = 1; n < stream.size(); ++n) {
    FrameReader reader(kPeerLimits);
    const Outcome outcome = feed(reader, ByteSpan(stream).first(n), 1000);
    EXPECT_EQ(outcome.error, "");
    EXPECT_TRUE(outcome.messages.empty());
    EXPECT_TRUE(reader.inside_frame()) << n;
  }
}

TEST(FrameReader, NamesAForeignVersion) {
  std::vector<std::byte> stream;
  append_frame(Hello{}, {}, stream);
  store_le<uint16_t>(stream.data() + 4, 7);
  FrameReader reader(kStrangerLimits);
  EXPECT_EQ(feed(reader, stream, 1000).error,
            fmt::format("it speaks version 7 of the protocol, this program version {}", kProtocolVersion));
  EXPECT_EQ(reader.foreign_version(), 7);
}

// A mutated stream gives a prefix of the frames and then an error, or waits for more; a frame that was touched never
// comes out changed.
TEST(FrameReader, MutatedStreamsGiveAPrefix) {
  Outcome expected;
  std::vector<std::byte> stream;
  for (const Golden& g : goldens()) {
    std::vector<std::byte> payload;
    if (takes_payload(type_of(g.message))) payload = bytes_of(64, 1);
    append_frame(g.message, payload, stream);
    expected.messages.push_back(g.message);
  }
  const uint32_t seed = 2;
  std::mt19937 random(seed);
  for (int round = 0; round < 20'000; ++round) {
    std::vector<std::byte> bytes = stream;
    bytes[random() % bytes.size()] ^= std::byte(1u << random() % 8);
    if (random() % 2) bytes[random() % bytes.size()] = std::byte(random());
    if (random() % 4 == 0) bytes.resize(random() % bytes.size());
    FrameReader reader(kPeerLimits);
    const Outcome outcome = feed(reader, bytes, 1 + random() % 500);
    ASSERT_LE(outcome.messages.size(), expected.messages.size());
    for (size_t i = 0; i < outcome.messages.size(); ++i) {
      ASSERT_EQ(outcome.messages[i], expected.messages[i]) << "seed " << seed << ", round " << round;
    }
  }
}

}  // namespace
}  // namespace dtrain::wire
