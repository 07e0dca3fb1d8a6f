// 2bit and 1bit against plain loops of what they are defined to be.
#include <cmath>
#include <limits>

#include "tests/compress/sender.h"

namespace dtrain::compress {
namespace {

constexpr char kMxnets[] = "{ type = \"2bit\", threshold = 0.5 }";

// Value by value; MXNet's rule where `from` is t.
std::vector<float> two_bit_model(std::vector<float>& r, const std::vector<float>& g, float t, float from) {
  std::vector<float> sent(g.size());
  for (size_t i = 0; i < g.size(); ++i) {
    r[i] += g[i];
    if (r[i] >= from) {
      sent[i] = t;
      r[i] -= t;
    } else if (r[i] <= -from) {
      sent[i] = -t;
      r[i] += t;
    }
  }
  return sent;
}

TEST(TwoBit, IsMxnetsRuleToTheBit) {
  for (const size_t n : kSizes) {
    Sender sender(kMxnets, n);
    std::vector<float> r(n);
    for (uint32_t step = 0; step < 20; ++step) {
      const std::vector<float> g = normal(n, step, 0.3f);
      const std::vector<float> wanted = two_bit_model(r, g, 0.5f, 0.5f);
      ASSERT_TRUE(same_bits(sender.send(g), wanted)) << n << " step " << step;
      ASSERT_TRUE(same_bits(sender.state[0], r));
    }
  }
}

TEST(TwoBit, SixteenValuesIn32Bits) {
  Sender sender("{ type = \"2bit\", threshold = 1.0 }", 65'536);
  EXPECT_EQ(sender.encode(normal(65'536, 1)).size(), 4u + 65'536 / 4);
  // 20 values in two words: even places in the first, odd ones in the second.
  Sender small("{ type = \"2bit\", threshold = 1.0 }", 20);
  std::vector<float> values(20);
  values[0] = 1.5f;   // word 0, bits 0-1: 3
  values[1] = -1.0f;  // word 1, bits 0-1: 2
  values[5] = 2.5f;   // word 1, bits 4-5: 3
  values[18] = 0.9f;  // not sent
  const auto payload = small.encode(values);
  ASSERT_EQ(payload.size(), 12u);
  EXPECT_EQ(load_le<float>(payload.data()), 1.0f);
  EXPECT_EQ(load_le<uint32_t>(payload.data() + 4), 3u);
  EXPECT_EQ(load_le<uint32_t>(payload.data() + 8), 2u | 3u << 4);
}

TEST(TwoBit, TheThresholdIsOfSumsOverSamples) {
  Sender sender(kMxnets, 3);
  const EncodeContext of_fifty{.samples = 50};
  const std::vector<float> sent = sender.send({0.02f, -0.011f, 0.009f}, of_fifty);
  EXPECT_EQ(sent, (std::vector<float>{0.01f, -0.01f, 0.0f}));
}

// Powers of two add up without rounding: what was sent and what is kept is what was given, to the bit.
TEST(TwoBit, NothingIsLost) {
  const size_t n = 1000;
  Sender sender(kMxnets, n);
  std::vector<double> given(n), sent(n);
  for (uint32_t step = 0; step < 50; ++step) {
    std::vector<float> g = normal(n, step, 0.4f);
    for (float& x : g) x = std::round(x * 64) / 64;
    const std::vector<float> arrived = sender.send(g);
    for (size_t i = 0; i < n; ++i) {
      given[i] += double{g[i]};
      sent[i] += double{arrived[i]};
    }
  }
  for (size_t i = 0; i < n; ++i) ASSERT_EQ(sent[i] + double{sender.state[0][i]}, given[i]);
}

TEST(TwoBit, WithoutAThresholdTheNearestIsSentToTheBit) {
  for (const char* text : {"\"2bit\"", "{ type = \"2bit\", threshold = \"auto\" }"}) {
    for (const size_t n : kSizes) {
      Sender sender(text, n);
      std::vector<float> r(n);
      for (uint32_t step = 0; step < 10; ++step) {
        const std::vector<float> g = normal(n, step, 0.3f);
        double sum = 0, squares = 0;
        for (size_t i = 0; i < n; ++i) {
          const double x = double{r[i]} + double{g[i]};
          sum += std::fabs(x);
          squares += x * x;
        }
        const auto payload = sender.encode(g, {.samples = 50});  // whatever the samples
        const float t = load_le<float>(payload.data());
        EXPECT_NEAR(t, squares / sum, 1e-5 * squares / sum) << n;
        ASSERT_TRUE(same_bits(sender.decode(payload), two_bit_model(r, g, t, t / 2))) << n << " step " << step;
        ASSERT_TRUE(same_bits(sender.state[0], r));
      }
    }
  }
}

// Some values are much larger than the others at every step, as gradients are: they are a few steps behind, not ever
// more.
TEST(TwoBit, WithoutAThresholdLargeValuesKeepUp) {
  const size_t n = 1024;
  std::vector<std::vector<float>> gradients;
  for (uint32_t k = 0; k < 16; ++k) {
    gradients.push_back(normal(n, k, 0.01f));
    for (size_t i = 0; i < n; i += 100) gradients.back()[i] = 1.0f;
  }
  const auto most_behind = [&](const char* text) {
    Sender sender(text, n);
    float most = 0;
    for (uint32_t step = 0; step < 3000; ++step) {
      sender.send(gradients[step % 16]);
      for (size_t i = 0; i < n; i += 100) most = std::max(most, sender.state[0][i]);
    }
    return most;
  };
  EXPECT_LT(most_behind("\"2bit\""), 12.0f);
  EXPECT_EQ(most_behind(kMxnets), 1500.0f);
}

TEST(TwoBit, AutoTakesTheSizeOfWhatCounts) {
  const size_t n = 4096;
  Sender sender("{ type = \"2bit\", threshold = \"auto\" }", n);
  const std::vector<float> g = normal(n, 3, 1e-6f);
  const std::vector<float> sent = sender.send(g);
  double sum = 0, squares = 0;
  for (const float x : g) {
    sum += std::fabs(double{x});
    squares += double{x} * x;
  }
  const float t = *std::max_element(sent.begin(), sent.end());
  EXPECT_NEAR(t, squares / sum, 1e-5 * squares / sum);
  // Each step leaves less than it was given (a contraction).
  double before = 0, after = 0;
  for (size_t i = 0; i < n; ++i) {
    before += double{g[i]} * g[i];
    after += double{sender.state[0][i]} * sender.state[0][i];
  }
  EXPECT_LT(after, 0.2 * before);  // of three levels for a normal distribution 0.19 is the least
  EXPECT_EQ(Sender("{ type = \"2bit\", threshold = \"auto\" }", 3).send({0, 0, 0}), (std::vector<float>(3)));
}

TEST(Bits, WhatIsNotFiniteArrivesAndIsNotKept) {
  for (const char* name : {"\"2bit\"", kMxnets, "\"1bit\""}) {
    for (const size_t n : {size_t{20}, size_t{1000}, size_t{65'536}}) {
      for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
        Sender sender(name, n, {.momentum = 0.9});
        std::vector<float> g = normal(n, 1);
        g[n - 7] = bad;
        EXPECT_FALSE(std::isfinite(sender.send(g)[n - 7])) << name;
        for (const auto& array : sender.state)
          for (const float rest : array) ASSERT_TRUE(std::isfinite(rest));
        for (const float x : sender.send(normal(n, 2))) ASSERT_TRUE(std::isfinite(x)) << name;
      }
    }
  }
}

TEST(OneBit, IsTheSignTimesTheMeanWithErrorFeedback) {
  for (const size_t n : kSizes) {
    Sender sender("\"1bit\"", n);
    std::vector<float> e(n);
    for (uint32_t step = 0; step < 5; ++step) {
      const std::vector<float> g = normal(n, step, 0.01f);
      double sum = 0;
      for (size_t i = 0; i < n; ++i) {
        e[i] += g[i];
        sum += std::fabs(double{e[i]});
      }
      const auto payload = sender.encode(g);
      EXPECT_LE(payload.size(), 4 + 4 * ((n + 31) / 32));
      const float scale = load_le<float>(payload.data());
      EXPECT_NEAR(scale, sum / static_cast<double>(n), 1e-5 * scale);
      const std::vector<float> sent = sender.decode(payload);
      for (size_t i = 0; i < n; ++i) {
        ASSERT_EQ(sent[i], std::signbit(e[i]) ? -scale : scale) << n << " " << i;
        e[i] -= sent[i];
        ASSERT_EQ(sender.state[0][i], e[i]);
      }
    }
  }
}

TEST(Bits, MomentumActsAheadOfThem) {
  for (const char* name : {"\"1bit\"", "\"2bit\""}) {
    for (const size_t n : kSizes) {
      Sender sender(name, n, {.momentum = 0.5}), plain(name, n);
      std::vector<float> u(n);
      for (uint32_t step = 0; step < 10; ++step) {
        std::vector<float> g = normal(n, step, 0.4f);
        for (size_t i = 0; i < n; ++i) u[i] = 0.5f * u[i] + g[i];
        ASSERT_EQ(sender.encode(g), plain.encode(u)) << name << " " << n << " step " << step;
      }
    }
  }
}

TEST(Bits, AddIsDecodeAndAdd) {
  for (const char* name : {"\"1bit\"", "\"2bit\""}) {
    for (const size_t n : kSizes) {
      Sender sender(name, n);
      const auto payload = sender.encode(normal(n, 5));
      std::vector<float> into = normal(n, 6), wanted = into;
      const std::vector<float> values = sender.decode(payload);
      for (size_t i = 0; i < n; ++i) wanted[i] += values[i];
      sender.method->codec().decode_add(payload, into);
      EXPECT_TRUE(same_bits(into, wanted)) << name << " " << n;
    }
  }
}

}  // namespace
}  // namespace dtrain::compress
