#include "compress/sparse.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tests/compress/sender.h"

namespace dtrain::compress {
namespace {

// By sorting everything.
std::vector<uint16_t> largest_model(const std::vector<float>& values, size_t count) {
  std::vector<uint16_t> order(values.size());
  std::iota(order.begin(), order.end(), uint16_t{0});
  const auto key = [&](uint16_t i) { return std::bit_cast<uint32_t>(values[i]) & 0x7fffffffu; };
  std::ranges::stable_sort(order, [&](uint16_t a, uint16_t b) { return key(a) > key(b); });
  order.resize(count);
  std::ranges::sort(order);
  return order;
}

TEST(Largest, IsWhatSortingFinds) {
  for (const size_t n : kSizes) {
    for (const double ratio : {1e-5, 0.001, 0.03, 0.5, 1.0}) {
      const std::vector<float> values = normal(n, static_cast<uint32_t>(n));
      const size_t count = sparse_count(n, ratio);
      ASSERT_EQ(largest(values, count), largest_model(values, count)) << n << " " << count;
    }
  }
}

TEST(Largest, OfEqualOnesTheFirst) {
  std::vector<float> values(1000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = (i % 2 ? -1.0f : 1.0f) * static_cast<float>(i % 5);
  for (const size_t count : {1, 199, 200, 201, 350, 999})
    EXPECT_EQ(largest(values, count), largest_model(values, count));
  EXPECT_EQ(largest(std::vector<float>(10), 3), (std::vector<uint16_t>{0, 1, 2}));
}

TEST(Largest, WhatIsNotFiniteIsLargest) {
  std::vector<float> values = normal(5000, 4);
  values[4321] = std::nanf("");
  values[17] = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(largest(values, 2), (std::vector<uint16_t>{17, 4321}));
  EXPECT_EQ(largest(values, 1), (std::vector<uint16_t>{4321}));
}

// What is sent is exact, what is kept is the rest: no value is in both.
TEST(TopK, SendsTheLargestAndKeepsTheRest) {
  const size_t n = 3000;
  Sender sender("{ type = \"topk\", ratio = 0.03 }", n);
  std::vector<float> r(n);
  for (uint32_t step = 0; step < 30; ++step) {
    const std::vector<float> g = normal(n, step);
    for (size_t i = 0; i < n; ++i) r[i] += g[i];
    const auto payload = sender.encode(g);
    ASSERT_EQ(payload.size(), sparse_bytes(90));
    const std::vector<float> sent = sender.decode(payload);
    const std::vector<uint16_t> places = largest_model(r, 90);
    std::vector<float> wanted(n);
    for (const uint16_t i : places) std::swap(wanted[i], r[i]);
    ASSERT_TRUE(same_bits(sent, wanted));
    ASSERT_TRUE(same_bits(sender.state[0], r));
  }
}

TEST(SparseCount, SmallChunksGoWhole) {
  EXPECT_EQ(sparse_count(65'536, 0.001), 66u);
  EXPECT_EQ(sparse_count(5000, 0.001), 64u);
  EXPECT_EQ(sparse_count(64, 0.001), 64u);
  EXPECT_EQ(sparse_count(10, 0.001), 10u);
  EXPECT_EQ(sparse_count(1, 1e-5), 1u);
}

TEST(TopK, MomentumActsAheadOfIt) {
  const size_t n = 3000;
  Sender sender("{ type = \"topk\", ratio = 0.03 }", n, {.momentum = 0.9});
  Sender dgc("{ type = \"dgc\", ratio = 0.03 }", n, {.momentum = 0.9});
  for (uint32_t step = 0; step < 10; ++step) {
    const std::vector<float> g = normal(n, step);
    ASSERT_EQ(sender.encode(g), dgc.encode(g));
  }
}

TEST(Dgc, MomentumIsCorrectedAndMasked) {
  const size_t n = 5000;
  const auto check = [&](bool nesterov, bool masking) {
    const std::string text = "{ type = \"dgc\", ratio = 0.02" + std::string(masking ? ", masking = true }" : " }");
    Sender sender(text, n, {.momentum = 0.9, .nesterov = nesterov});
    std::vector<float> u(n), v(n);
    for (uint32_t step = 0; step < 20; ++step) {
      const std::vector<float> g = normal(n, step);
      for (size_t i = 0; i < n; ++i) {
        // Nesterov's: u = m·(u + g), v += u + g, in the order in which it is added up.
        v[i] += 0.9f * u[i] + (nesterov ? 1.9f : 1.0f) * g[i];
        u[i] = 0.9f * u[i] + (nesterov ? 0.9f : 1.0f) * g[i];
      }
      std::vector<float> wanted(n);
      for (const uint16_t i : largest_model(v, 100)) {
        wanted[i] = v[i];
        v[i] = 0;
        if (masking) u[i] = 0;
      }
      ASSERT_TRUE(same_bits(sender.send(g, {.step = step}), wanted)) << step;
      ASSERT_TRUE(same_bits(sender.state[0], u));
      ASSERT_TRUE(same_bits(sender.state[1], v));
    }
  };
  for (const bool nesterov : {false, true})
    for (const bool masking : {false, true}) check(nesterov, masking);
}

// Where everything is sent at once what arrives is what SGD with momentum would move by.
TEST(Dgc, WhatIsSentAtOnceLosesNoMomentum) {
  Sender sender("\"dgc\"", 2, {.momentum = 0.5});
  float buffer = 0;
  for (int64_t step = 0; step < 6; ++step) {
    buffer = 0.5f * buffer + 1;
    EXPECT_EQ(sender.send({1, 100}, {.step = step}), (std::vector<float>{buffer, 100 * buffer}));
  }
}

TEST(Dgc, WhatIsNotFiniteArrivesAndIsNotKept) {
  for (const char* text : {"\"dgc\"", "{ type = \"dgc\", masking = true }", "\"topk\""}) {
    const size_t n = 5000;
    Sender sender(text, n, {.momentum = 0.9});
    std::vector<float> g = normal(n, 1);
    g[77] = std::nanf("");
    g[78] = std::numeric_limits<float>::infinity();
    const std::vector<float> sent = sender.send(g);
    EXPECT_TRUE(std::isnan(sent[77]) && std::isinf(sent[78]));
    for (const auto& array : sender.state)
      for (const float x : array) ASSERT_TRUE(std::isfinite(x)) << text;
  }
}

// A value that is sent at every step goes by plain momentum-free descent; one that is kept builds up exactly what
// momentum would have moved it by.
TEST(Dgc, WhatIsHeldBackIsWhatMomentumWouldHaveMoved) {
  Sender sender("{ type = \"dgc\", ratio = 0.5, masking = true }", 200, {.momentum = 0.5});
  std::vector<float> g(200, 1.0f), wanted(200);
  std::fill_n(g.begin(), 100, 1000.0f);
  std::fill_n(wanted.begin(), 100, 1000.0f);
  float buffer = 0, moved = 0;
  for (int64_t step = 0; step < 6; ++step) {
    EXPECT_EQ(sender.send(g, {.step = step}), wanted);
    buffer = 0.5f * buffer + 1;
    moved += buffer;
  }
  EXPECT_EQ(sender.state[1][150], moved);
}

TEST(Dgc, SparsityWarmsUp) {
  const size_t n = 65'536;
  Sender sender("{ type = \"dgc\", warmup = 4 }", n);
  std::vector<size_t> counts;
  for (int64_t step = 0; step < 6; ++step)
    counts.push_back((sender.encode(normal(n, 1), {.step = step}).size() - 4) / 6);
  // 25 %, then by the fourth root of 250 less each step, until 0.1 %.
  EXPECT_EQ(counts[0], n / 4);
  EXPECT_NEAR(static_cast<double>(counts[1]), 0.25 / std::pow(250, 0.25) * n, 1);
  EXPECT_NEAR(static_cast<double>(counts[2]), 0.25 / std::pow(250, 0.5) * n, 1);
  EXPECT_EQ(counts[4], 66u);
  EXPECT_EQ(counts[5], 66u);
}

// A quarter of the run, at most four epochs; a run of unknown length has none.
TEST(Sparsity, WarmsUpByItself) {
  const size_t n = 65'536;
  const auto count = [&](const std::string& text, const EncodeContext& context) {
    return (Sender(text, n).encode(normal(n, 1), context).size() - 4) / 6;
  };
  for (const std::string name : {"\"dgc\"", "\"topk\""}) {
    const size_t least = name == "\"dgc\"" ? 66 : 656;
    EXPECT_EQ(count(name, {}), least);
    EXPECT_EQ(count(name, {.step = 0, .run_steps = 400, .epoch_steps = 100}), n / 4);
    EXPECT_GT(count(name, {.step = 99, .run_steps = 400, .epoch_steps = 100}), least);
    EXPECT_EQ(count(name, {.step = 100, .run_steps = 400, .epoch_steps = 100}), least);
    EXPECT_GT(count(name, {.step = 39, .run_steps = 400, .epoch_steps = 10}), least);
    EXPECT_EQ(count(name, {.step = 40, .run_steps = 400, .epoch_steps = 10}), least);
  }
  EXPECT_EQ(count("{ type = \"topk\", warmup = 0 }", {.step = 0, .run_steps = 400, .epoch_steps = 100}), 656u);
}

TEST(Dgc, ClipsWhatComesIn) {
  Sender sender("{ type = \"dgc\", clip_norm = 1.0 }", 2);
  // Two of eight micro-batches may have sqrt(2 · 8) = 4: the norm is 10.
  const EncodeContext context{.micro_batches = 8, .summed = 2};
  const std::vector<float> sent = sender.send({8, 6}, context);
  EXPECT_NEAR(sent[0], 3.2f, 1e-6f);
  EXPECT_NEAR(sent[1], 2.4f, 1e-6f);
}

}  // namespace
}  // namespace dtrain::compress
