#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/crc32c.h"
#include "base/nearest.h"
#include "base/philox.h"
#include "base/sha256.h"

namespace dtrain {
namespace {

ByteSpan bytes(const std::string& text) { return std::as_bytes(std::span(text.data(), text.size())); }

TEST(Crc32c, KnownValues) {  // RFC 3720, appendix B.4
  EXPECT_EQ(crc32c(bytes("123456789")), 0xe3069283u);
  EXPECT_EQ(crc32c(bytes(std::string(32, '\0'))), 0x8a9136aau);
  EXPECT_EQ(crc32c(bytes(std::string(32, '\xff'))), 0x62a8ab43u);
}

TEST(Crc32c, FastAndPortableAgreeAtEveryLengthAndInParts) {
  std::string text;
  for (int i = 0; i < 50'000; ++i) text += static_cast<char>(i * 7 + i / 251);
  for (size_t n :
       {0u, 1u, 7u, 8u, 9u, 511u, 512u, 513u, 767u, 768u, 1025u, 4095u, 12287u, 12288u, 12289u, 40000u, 50000u}) {
    const ByteSpan part = bytes(text).first(n);
    EXPECT_EQ(crc32c(part), crc32c_portable(part)) << n;
    EXPECT_EQ(crc32c(part.subspan(n / 3), crc32c(part.first(n / 3))), crc32c(part)) << n;
    EXPECT_EQ(crc32c(part.subspan(n / 3), 12345), crc32c_portable(part.subspan(n / 3), 12345)) << n;
  }
}

TEST(Sha256, KnownValue) {  // FIPS 180-4 example
  EXPECT_EQ(to_hex(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Philox, KnownValues) {  // the authors' test vectors (Random123, kat_vectors)
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Philox4{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Philox4{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Philox4{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, NormalDeviatesMatchTheDistribution) {
  EXPECT_NEAR(standard_normal(0x80000000u), 0.0, 1e-6);
  EXPECT_NEAR(standard_normal(static_cast<uint32_t>(0.975 * 0x1.0p32)), 1.959964, 1e-5);
  EXPECT_NEAR(standard_normal(static_cast<uint32_t>(0.001 * 0x1.0p32)), -3.090232, 1e-5);
  EXPECT_NEAR(standard_normal(0), -6.3379, 1e-3);
  double sum = 0, squares = 0;
  const Philox draws(7, stream_id("test"), 0, 0);
  constexpr int kDraws = 100'000;
  for (int i = 0; i < kDraws; ++i) {
    const double x = standard_normal(draws.at(i));
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / kDraws, 0.0, 0.02);
  EXPECT_NEAR(squares / kDraws, 1.0, 0.02);
}

TEST(Nearest, TyposFindTheirWord) {
  const std::vector<std::string> known{"steps", "epochs", "batch", "micro_batch"};
  EXPECT_EQ(nearest("stepps", known), "steps");
  EXPECT_EQ(nearest("bacth", known), "batch");
  EXPECT_EQ(nearest("zzzzzz", known), "");
  EXPECT_EQ(suggestion("stepps", known), " (did you mean 'steps'?)");
  EXPECT_EQ(suggestion("qqqqqq", known), " (known: batch, epochs, micro_batch, steps)");
}

TEST(Nearest, NamesOfElsewhereFindTheirs) {
  const std::vector<std::string> known{"add", "kernel", "pad", "pad_mode", "sigmoid_loss", "cross_loss", "local_norm"};
  EXPECT_EQ(nearest("kernel_size", known), "kernel");
  EXPECT_EQ(nearest("padding", known), "pad");
  EXPECT_EQ(nearest("pad_mode_of_edges", known), "pad_mode");
  EXPECT_EQ(nearest("_norm", known), "local_norm");
  EXPECT_EQ(nearest("_loss", known), "");  // which of the two?
  EXPECT_EQ(nearest("size", known), "");
}

}  // namespace
}  // namespace dtrain
