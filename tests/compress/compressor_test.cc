#include "compress/compressor.h"

#include "tests/compress/sender.h"

namespace dtrain::compress {
namespace {

TEST(Compressor, RemembersEachChunkByItself) {
  for (const std::string text : {"{ type = \"topk\", ratio = 0.001 }", "\"dgc\"", "\"fp16\""}) {
    config::Diagnostics diagnostics;
    const MethodSetting setting{.momentum = 0.9};
    Compressor compressor(read_text(text, diagnostics, setting));
    const size_t sizes[] = {65'536, 300, 1000};
    std::vector<Sender> senders;
    for (const size_t n : sizes) senders.emplace_back(text, n, setting);
    for (uint32_t step = 0; step < 3; ++step) {
      for (const uint32_t chunk : {2u, 0u, 1u}) {
        const std::vector<float> values = normal(sizes[chunk], step + 10 * chunk);
        const auto encoded = compressor.encode({.step = step}, step, chunk, values);
        const auto wanted = senders[chunk].encode(values, {.step = step});
        EXPECT_TRUE(std::ranges::equal(ByteSpan(encoded->data(), encoded->size()), wanted));
      }
    }
    EXPECT_EQ(compressor.codec(), senders[0].method->codec().id());
  }
}

// Momentum is a step's, however many parts its gradient is pushed in, and also where a step had none here.
TEST(Compressor, MomentumDecaysOnceAStep) {
  config::Diagnostics diagnostics;
  const size_t n = 100;
  // Nothing is sent of the first 36 elements but what 64 larger ones leave: all of it is kept.
  const auto gradient = [&](float x) {
    std::vector<float> g(n, 1024.0f);
    std::fill_n(g.begin(), 36, x);
    return g;
  };
  for (const bool nesterov : {false, true}) {
    const MethodSetting setting{.momentum = 0.5, .nesterov = nesterov};
    const auto method = read_text("{ type = \"dgc\", masking = true }", diagnostics, setting);
    Compressor whole(method), parts(method), absent(method), idle(method);
    // In powers of two, which add up without rounding.
    for (int64_t step = 3; step < 6; ++step) {
      whole.encode({.step = step}, step, 0, gradient(6));
      for (const float x : {4.0f, 1.0f, 1.0f}) parts.encode({.step = step}, step, 0, gradient(x));
    }
    for (const int64_t step : {3, 6}) absent.encode({.step = step}, step, 0, gradient(6));
    for (const int64_t step : {3, 4, 5, 6}) idle.encode({.step = step}, step, 0, gradient(step % 3 ? 0.0f : 6.0f));
    // Then the others fall silent, and what was kept comes.
    std::vector<float> last(n);
    const auto kept = [&](Compressor& compressor, int64_t step) {
      std::vector<float> sum(n);
      for (int round = 0; round < 2; ++round) {
        const auto payload = compressor.encode({.step = step}, step, 0, last);
        method->codec().decode_add({payload->data(), payload->size()}, sum);
      }
      return sum[0];
    };
    EXPECT_EQ(kept(whole, 5), kept(parts, 5));
    EXPECT_EQ(kept(absent, 6), kept(idle, 6));
  }
}

}  // namespace
}  // namespace dtrain::compress
