// fp16 and bf16 against arithmetic that is written down otherwise.
#include <cmath>
#include <limits>

#include "tests/compress/sender.h"

namespace dtrain::compress {
namespace {

uint32_t bits_of(float x) { return std::bit_cast<uint32_t>(x); }

// The nearest number with `digits` bits of fraction and no exponent below `least`, of two the even one; by scaling,
// where nearbyint rounds.
float rounded(float x, int digits, int least) {
  if (x == 0 || !std::isfinite(x)) return x;
  const int exponent = std::max(std::ilogb(x), least);
  return static_cast<float>(std::ldexp(std::nearbyint(std::ldexp(double{x}, digits - exponent)), exponent - digits));
}

std::vector<float> awkward() {
  std::vector<float> v;
  // Every sign and exponent, with fractions around what is rounded away.
  for (uint32_t top = 0; top < 512; ++top) {
    for (const uint32_t fraction : {0u, 1u, 0xfffu, 0x1000u, 0x1001u, 0x1fffu, 0x2000u, 0x3000u, 0x3001u, 0x7fffu,
                                    0x8000u, 0x8001u, 0x17fffu, 0x18000u, 0x18001u, 0x3ff000u, 0x7fefffu, 0x7fffffu})
      v.push_back(std::bit_cast<float>(top << 23 | fraction));
  }
  return v;
}

TEST(Fp16, RoundsToTheNearestHalf) {
  const std::vector<float> values = awkward();
  Sender sender("\"fp16\"", values.size());
  const std::vector<float> got = sender.send(values);
  for (size_t i = 0; i < values.size(); ++i) {
    float wanted = rounded(values[i], 10, -14);
    if (std::fabs(wanted) > 65504.0f) wanted = std::copysign(std::numeric_limits<float>::infinity(), wanted);
    if (std::isnan(values[i])) {
      EXPECT_TRUE(std::isnan(got[i]));
    } else {
      EXPECT_EQ(bits_of(got[i]), bits_of(wanted)) << values[i];
    }
  }
}

TEST(Fp16, EveryHalfIsItself) {
  std::vector<std::byte> all(2 * 65'536);
  for (size_t i = 0; i < 65'536; ++i) store_le(all.data() + 2 * i, static_cast<uint16_t>(i));
  Sender sender("\"fp16\"", 65'536);
  const std::vector<float> values = sender.decode(all);
  EXPECT_EQ(values[0x3c00], 1.0f);
  EXPECT_EQ(values[0xc000], -2.0f);
  EXPECT_EQ(values[0x0001], std::ldexp(1.0f, -24));
  EXPECT_EQ(values[0x7bff], 65504.0f);
  const std::vector<std::byte> again = sender.encode(values);
  for (size_t i = 0; i < 65'536; ++i) {
    if (std::isnan(values[i])) continue;
    ASSERT_EQ(load_le<uint16_t>(again.data() + 2 * i), i);
  }
}

TEST(Bf16, RoundsToTheNearest) {
  const std::vector<float> values = awkward();
  Sender sender("\"bf16\"", values.size());
  const std::vector<float> got = sender.send(values);
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(values[i])) {
      EXPECT_TRUE(std::isnan(got[i]));
      continue;
    }
    double wanted = double{values[i]};
    if (values[i] != 0 && std::isfinite(values[i])) {
      const int exponent = std::max(std::ilogb(values[i]), -126);
      wanted = std::ldexp(std::nearbyint(std::ldexp(wanted, 7 - exponent)), exponent - 7);
    }
    EXPECT_EQ(bits_of(got[i]), bits_of(static_cast<float>(wanted))) << values[i];
  }
}

TEST(Halves, AddIsDecodeAndAdd) {
  for (const char* name : {"\"fp16\"", "\"bf16\""}) {
    for (const size_t n : kSizes) {
      Sender sender(name, n);
      const auto payload = sender.encode(normal(n, 5));
      EXPECT_EQ(payload.size(), 2 * n);
      std::vector<float> into = normal(n, 6), wanted = into;
      const std::vector<float> values = sender.decode(payload);
      for (size_t i = 0; i < n; ++i) wanted[i] += values[i];
      sender.method->codec().decode_add(payload, into);
      EXPECT_TRUE(same_bits(into, wanted));
    }
  }
}

}  // namespace
}  // namespace dtrain::compress
