// What every codec and method must hold, and payloads that lie.
#include "compress/codec.h"

#include <cmath>

#include "base/sha256.h"
#include "compress/sparse.h"
#include "tests/compress/sender.h"

namespace dtrain::compress {
namespace {

std::vector<std::string> method_names() {
  std::vector<std::string> names = MethodRegistry::instance().names();
  std::erase(names, "none");
  EXPECT_EQ(names.size(), 6u);
  return names;
}

TEST(Codecs, IdsThatTravel) {
  const std::pair<uint8_t, std::string> known[] = {{1, "fp16"}, {2, "bf16"}, {3, "1bit"}, {4, "2bit"}, {5, "sparse"}};
  for (const auto& [id, name] : known) {
    ASSERT_NE(find_codec(id), nullptr);
    EXPECT_EQ(find_codec(id)->name(), name);
    EXPECT_EQ(static_cast<uint8_t>(find_codec(id)->id()), id);
  }
  for (int id : {0, 6, 7, 100, 255}) EXPECT_EQ(find_codec(static_cast<uint8_t>(id)), nullptr);
}

TEST(Codecs, PayloadsOfAnotherLengthAreRefused) {
  for (const std::string& name : method_names()) {
    for (const size_t n : kSizes) {
      Sender sender("\"" + name + "\"", n);
      std::vector<std::byte> payload = sender.encode(normal(n, 1));
      const Codec& codec = sender.method->codec();
      EXPECT_FALSE(codec.valid({}, n)) << name;
      for (const size_t cut : {size_t{1}, size_t{2}, payload.size() / 2})
        EXPECT_FALSE(codec.valid(ByteSpan(payload).first(payload.size() - cut), n)) << name;
      payload.push_back(std::byte{});
      EXPECT_FALSE(codec.valid(payload, n)) << name;
    }
  }
}

TEST(Codecs, ThresholdsAndScalesThatCannotBeAreRefused) {
  Sender two("\"2bit\"", 300), one("\"1bit\"", 300);
  std::vector<std::byte> p2 = two.encode(normal(300, 1)), p1 = one.encode(normal(300, 1));
  for (const float bad : {-1.0f, -0.0f, 0.0f, INFINITY, NAN}) {
    store_le(p2.data(), bad);
    EXPECT_FALSE(two.method->codec().valid(p2, 300)) << bad;
  }
  for (const float bad : {-1.0f, INFINITY, -INFINITY}) {
    store_le(p1.data(), bad);
    EXPECT_FALSE(one.method->codec().valid(p1, 300)) << bad;
  }
}

TEST(Codecs, PlacesThatLieAreRefused) {
  const Codec& codec = sparse_codec();
  const auto payload = [](uint32_t count, const std::vector<uint16_t>& places) {
    std::vector<std::byte> p(4 + 6 * places.size());
    store_le(p.data(), count);
    std::memcpy(p.data() + 4, places.data(), 2 * places.size());
    return p;
  };
  EXPECT_TRUE(codec.valid(payload(2, {0, 9}), 10));
  EXPECT_TRUE(codec.valid(payload(0, {}), 10));
  EXPECT_FALSE(codec.valid(payload(2, {0, 10}), 10));   // beyond the chunk
  EXPECT_FALSE(codec.valid(payload(2, {5, 5}), 10));    // twice
  EXPECT_FALSE(codec.valid(payload(2, {6, 5}), 10));    // not ascending
  EXPECT_FALSE(codec.valid(payload(3, {0, 9}), 10));    // more than there are
  EXPECT_FALSE(codec.valid(payload(1, {0, 9}), 10));    // fewer
  EXPECT_FALSE(codec.valid(payload(3, {0, 1, 2}), 2));  // more than elements
  EXPECT_FALSE(codec.valid(payload(0xffffffffu, {}), 10));
  EXPECT_FALSE(codec.valid(payload(0, {}), 65'537));
  EXPECT_FALSE(codec.valid(std::vector<std::byte>(3), 10));
}

// Whatever bytes pass valid() can be decoded (under the sanitizers this finds what reads or writes beyond).
TEST(Codecs, AnyBytesAreRefusedOrDecoded) {
  uint32_t accepted = 0;
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    const Philox random(seed, 7, 8, 9);
    const size_t n = 1 + random.at(0) % 700;
    for (const std::string& name : method_names()) {
      Sender sender("\"" + name + "\"", n);
      std::vector<std::byte> payload = sender.encode(normal(n, seed));
      for (uint32_t flip = 0; flip < 3; ++flip)
        payload[random.at(10 + flip) % payload.size()] ^= static_cast<std::byte>(random.at(20 + flip));
      if (random.at(30) % 4 == 0) payload.resize(random.at(31) % (payload.size() + 8));
      if (!sender.method->codec().valid(payload, n)) continue;
      ++accepted;
      std::vector<float> out(n);
      sender.method->codec().decode(payload, out);
      sender.method->codec().decode_add(payload, out);
    }
  }
  EXPECT_GT(accepted, 1000u);
}

// These hold on every instruction set and compiler.
TEST(Methods, SameBitsEverywhere) {
  const std::pair<std::string, std::string> known[] = {
      {"\"fp16\"", "20e0780eb9ec6805"},
      {"\"bf16\"", "a59eb4bcc36c0fc6"},
      {"\"1bit\"", "2c85072a8a78c794"},
      {"\"2bit\"", "9648c9b621eaf175"},
      {"{ type = \"2bit\", threshold = 0.5 }", "ee5e32918b0c468d"},
      {"\"topk\"", "fd0f4d0af573494e"},
      {"{ type = \"dgc\", clip_norm = 0.01, ratio = 0.01 }", "b7f7499a0b54d668"},
      {"{ type = \"dgc\", clip_norm = 0.01, ratio = 0.01, masking = true }", "44f7f90d2a8acfa8"}};
  for (const auto& [text, hash] : known) {
    Sender sender(text, 7001, {.momentum = 0.9});
    Sha256 digest;
    for (uint32_t step = 0; step < 4; ++step) {
      const auto payload = sender.encode(normal(7001, step), {.step = step, .samples = 3});
      digest.update({reinterpret_cast<const char*>(payload.data()), payload.size()});
      const auto values = sender.decode(payload);
      digest.update({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
    }
    EXPECT_EQ(to_hex(digest.finish()).substr(0, 16), hash) << text;
  }
}

}  // namespace
}  // namespace dtrain::compress
