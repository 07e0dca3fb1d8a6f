#include "proto-free-wire/codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/wire/golden.h"

namespace dtrain::wire {
namespace {

using ::testing::HasSubstr;

TEST(Codec, EveryMessageHasGoldenBytes) {
  for (const MessageType type : message_types()) {
    const auto found =
        std::count_if(goldens().begin(), goldens().end(), [&](const Golden& g) { return type_of(g.message) == type; });
    EXPECT_EQ(found, 1) << name_of(type) << " needs one row in golden.h";
  }
}

TEST(Codec, EncodesToTheGoldenBytes) {
  for (const Golden& g : goldens()) EXPECT_EQ(to_hex(encode(g.message)), g.hex) << g.text;
}

TEST(Codec, DecodesWhatItEncoded) {
  for (const Golden& g : goldens()) {
    const Result<Message> back = decode(type_of(g.message), encode(g.message));
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_EQ(*back, g.message) << g.text;
  }
}

TEST(Codec, PrintsFieldsByName) {
  for (const Golden& g : goldens()) EXPECT_EQ(print(g.message), g.text);
}

TEST(Codec, PrintEscapesWhatAPeerSent) {
  EXPECT_EQ(print(Failure{.exit_code = 1, .reason = "a\n\"\x1b[2J"}),
            R"(Failure{exit_code=1, reason="a\x0a\"\x1b[2J"})");
  EXPECT_EQ(print(Rates{.from = 0, .rates = std::vector<double>(1000, 0.5)}),
            "Rates{from=0, rates=[0.5, 0.5, 0.5, 0.5, … 1000 in all]}");
  EXPECT_LT(print(Failure{.exit_code = 1, .reason = std::string(10'000, 'x')}).size(), 300u);
}

TEST(Codec, CutAtEveryOffsetIsRefused) {
  for (const Golden& g : goldens()) {
    const std::vector<std::byte> bytes = encode(g.message);
    for (size_t n = 0; n < bytes.size(); ++n) {
      const Result<Message> cut = decode(type_of(g.message), ByteSpan(bytes).first(n));
      ASSERT_FALSE(cut) << g.text << " cut to " << n;
      EXPECT_EQ(cut.error().code, ExitCode::kPeerLost);
    }
  }
}

TEST(Codec, BytesLeftOverAreRefused) {
  for (const Golden& g : goldens()) {
    std::vector<std::byte> bytes = encode(g.message);
    bytes.push_back(std::byte{0});
    const Result<Message> decoded = decode(type_of(g.message), bytes);
    ASSERT_FALSE(decoded) << g.text;
    EXPECT_THAT(decoded.error().message, HasSubstr("1 bytes are left over"));
  }
}

TEST(Codec, HostileLengthsAllocateNothing) {
  std::vector<std::byte> bytes = encode(Rates{.from = 1, .rates = {1.0}});
  store_le<uint32_t>(bytes.data() + 8, 0xffffffff);
  const Result<Message> list = decode(MessageType::kRates, bytes);
  ASSERT_FALSE(list);
  EXPECT_EQ(list.error().message, "malformed Rates: 'rates' claims 4294967295 elements, 8 bytes are left");

  bytes = encode(Failure{.exit_code = 1, .reason = "x"});
  store_le<uint32_t>(bytes.data() + 1, 2);
  const Result<Message> text = decode(MessageType::kFailure, bytes);
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().message, "malformed Failure: 'reason' claims 2 elements, 1 bytes are left");
}

TEST(Codec, ValuesOutOfRangeAreRefused) {
  std::vector<std::byte> join = encode(Join{});
  join[1] = std::byte{2};
  const Result<Message> boolean = decode(MessageType::kJoin, join);
  ASSERT_FALSE(boolean);
  EXPECT_EQ(boolean.error().message, "malformed Join: 'serves' is 2, neither 0 nor 1");

  for (const uint8_t kind : {0, 3, 255}) {
    std::vector<std::byte> assign = encode(Assign{});
    assign[4] = std::byte{kind};
    EXPECT_FALSE(decode(MessageType::kAssign, assign)) << int{kind};
  }
}

TEST(Codec, UnknownTypesAreRefused) {
  for (const uint16_t id : {0, 29, 37, 65535}) {
    const Result<Message> decoded = decode(static_cast<MessageType>(id), {});
    ASSERT_FALSE(decoded);
    EXPECT_THAT(decoded.error().message, HasSubstr("message " + std::to_string(id)));
  }
}

TEST(Codec, OnlyChunksTakeAPayload) {
  for (const MessageType type : message_types()) {
    const std::string name(name_of(type));
    const bool carries = name == "ShardPart" || name == "StageValue" || name == "Rows" || name == "RowPush";
    EXPECT_EQ(takes_payload(type), carries || name.ends_with("Chunk")) << name;
  }
}

// Whatever bytes come, the answer is an error or a message that means exactly these bytes.
TEST(Codec, MutatedBytesAreRefusedOrMeanThemselves) {
  const uint32_t seed = 1;
  std::mt19937 random(seed);
  size_t accepted = 0, refused = 0;
  for (int round = 0; round < 2000; ++round) {
    for (const Golden& g : goldens()) {
      std::vector<std::byte> bytes = encode(g.message);
      const size_t edits = 1 + random() % 3;
      for (size_t i = 0; i < edits; ++i) {
        const uint32_t kind = random() % 4;
        const size_t at = bytes.empty() ? 0 : random() % bytes.size();
        if (kind == 0) bytes.insert(bytes.begin() + static_cast<ptrdiff_t>(at), std::byte(random()));
        if (bytes.empty()) continue;
        if (kind == 1) bytes.erase(bytes.begin() + static_cast<ptrdiff_t>(at));
        if (kind == 2) bytes[at] ^= std::byte(1u << random() % 8);
        if (kind == 3) bytes[at] = std::byte(random());
      }
      const Result<Message> decoded = decode(type_of(g.message), bytes);
      if (!decoded) {
        ++refused;
        continue;
      }
      ++accepted;
      ASSERT_EQ(to_hex(encode(*decoded)), to_hex(bytes)) << g.text << ", seed " << seed << ", round " << round;
    }
  }
  EXPECT_GT(accepted, 1000u);
  EXPECT_GT(refused, 1000u);
}

}  // namespace
}  // namespace dtrain::wire
