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
        const auto encoded = compressor.encode({.step = step}, chunk, values);
        const auto wanted = senders[chunk].encode(values, {.step = step});
        EXPECT_TRUE(std::ranges::equal(ByteSpan(encoded->data(), encoded->size()), wanted));
      }
    }
    EXPECT_EQ(compressor.codec(), senders[0].method->codec().id());
  }
}

}  // namespace
}  // namespace dtrain::compress
