// Encoded chunks of peers that cannot be trusted, and sums that begin, go on and end with one.
#include <gmock/gmock.h>

#include "fixture.h"
#include "ps/arrival_sum.h"
#include "ps/chunk_sum.h"
#include "tests/compress/sender.h"

namespace dtrain::ps {
namespace {

using testing::HasSubstr;

TEST(EncodedChunks, WhatIsNoneIsRefused) {
  const BlockTable table(small_model(), 1);
  const auto optimizer = make_optimizer("");
  FakeOutbox outbox;
  FakeSink sink;
  Facts facts(table, 1);
  const Oracle oracle(table, *optimizer, facts, 1);
  ShardServer server(table, 0, {.micro_batches = 1, .pool_bytes = 1 << 26}, *optimizer, outbox, sink);
  load_all(server, 0, table, oracle);
  server.start(0);
  compress::Sender sender("\"2bit\"", 500);
  auto payload = sender.encode(compress::normal(500, 1));
  const auto error = [&](const wire::NodeChunk& m, ByteSpan bytes) {
    const Status status = server.on_message(7, m, bytes);
    return status ? "" : status.error().message;
  };
  wire::NodeChunk m{.step = 0, .block = 0, .first = 0, .last = 1, .chunk = 0, .codec = 4};
  m.codec = 99;
  EXPECT_THAT(error(m, payload), HasSubstr("no codec 99"));
  m.codec = 0;
  EXPECT_THAT(error(m, payload), HasSubstr("bytes"));
  m.codec = 3;
  EXPECT_THAT(error(m, payload), HasSubstr("1bit"));
  m.codec = 4;
  EXPECT_THAT(error(m, ByteSpan(payload).first(payload.size() - 1)), HasSubstr("2bit"));
  m.block = 2;
  EXPECT_THAT(error(m, payload), HasSubstr("encoded"));  // a statistic
  m.block = 0;
  EXPECT_TRUE(same_bits(server.values(0), oracle.values[0]));
  EXPECT_EQ(error(m, payload), "");
  EXPECT_EQ(server.counters().bytes_taken, payload.size());
}

// In every place of the tree an encoded node is what its values are.
TEST(EncodedChunks, SumsTakeThemAnywhere) {
  const size_t n = 1000;
  for (const uint32_t k : {1u, 2u, 3u, 4u}) {
    for (uint32_t encoded = 0; encoded < 1u << k; ++encoded) {
      for (const bool with_root : {false, true}) {
        for (const bool tree : {true, false}) {
          std::unique_ptr<PartialSum> sum, plain;
          for (auto* s : {&sum, &plain}) {
            if (tree)
              *s = std::make_unique<ChunkSum>(k);
            else
              *s = std::make_unique<ArrivalSum>(k);
          }
          SumPool pool;
          std::vector<float> root(n), plain_root(n);
          const float *got = nullptr, *wanted = nullptr;
          for (uint32_t i = k; i-- > 0;) {
            compress::Sender sender("\"1bit\"", n);
            const auto payload = sender.encode(compress::normal(n, i));
            const std::vector<float> values = sender.decode(payload);
            const ChunkValues as_values{std::span<const float>(values)};
            const ChunkValues as_bytes(sender.method->codec(), payload, n);
            float* const into = with_root ? root.data() : nullptr;
            got = sum->add({i, i + 1}, encoded >> i & 1 ? as_bytes : as_values, pool, into, false);
            wanted = plain->add({i, i + 1}, as_values, pool, plain_root.data(), false);
            ASSERT_EQ(got == nullptr, wanted == nullptr);
            if (wanted) {
              ASSERT_TRUE(same_bits({got, n}, {wanted, n})) << k << " " << encoded << " " << with_root << tree;
            }
          }
          ASSERT_NE(wanted, nullptr);
          sum->free(pool, n);
          plain->free(pool, n);
        }
      }
    }
  }
}

}  // namespace
}  // namespace dtrain::ps
