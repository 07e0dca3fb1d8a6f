#include "compress/compressor.h"

#include "tests/compress/sender.h"

namespace dtrain::compress {
namespace {

TEST(Compressor, EachChunkOfEachBlockByItself) {
  config::Diagnostics diagnostics;
  const auto method = read_text("{ type = \"topk\", ratio = 0.001 }", diagnostics);
  Compressor compressor(method);
  const size_t sizes[] = {2 * 65'536 + 1000, 300};
  // The same senders one by one.
  std::vector<Sender> senders;
  for (const size_t n : {size_t{65'536}, size_t{65'536}, size_t{1000}, size_t{300}})
    senders.emplace_back("{ type = \"topk\", ratio = 0.001 }", n);
  for (uint32_t step = 0; step < 3; ++step) {
    size_t sender = 0;
    for (const uint32_t block : {1u, 0u}) {
      const std::vector<float> values = normal(sizes[1 - block], step + 10 * block);
      const Encoded encoded = compressor.encode({.step = step}, block, values);
      EXPECT_EQ(encoded.codec, CodecId::kSparse);
      ASSERT_EQ(encoded.chunks.size(), block == 1 ? 3u : 1u);
      size_t first = 0, bytes = 0;
      for (const ByteSpan chunk : encoded.chunks) {
        Sender& s = senders[sender++];
        const auto wanted = s.encode(
            {values.begin() + static_cast<ptrdiff_t>(first), values.begin() + static_cast<ptrdiff_t>(first + s.n)});
        EXPECT_TRUE(std::ranges::equal(chunk, wanted));
        first += s.n;
        bytes += chunk.size();
      }
      EXPECT_EQ(encoded.bytes(), bytes);
    }
  }
}

}  // namespace
}  // namespace dtrain::compress
