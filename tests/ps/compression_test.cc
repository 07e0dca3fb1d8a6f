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

// What a watcher puts in the place of a version stays, also where versions come near to exact values that the server
// keeps.
TEST(EncodedPulls, GoOnFromWhatWasPut) {
  class Putter final : public StepWatcher {
   public:
    void on_root(uint32_t, uint32_t, int64_t, std::span<const float>) override {}
    bool on_commit(uint32_t block, int64_t version, std::span<float> values) override {
      if (block != 0 || version != 1) return false;
      std::ranges::fill(values, 100.0f);
      return true;
    }
  };
  const BlockTable table(small_model(), 1);
  const auto optimizer = make_optimizer("");
  FakeOutbox outbox;
  FakeSink sink;
  Facts facts(table, 1);
  const Oracle oracle(table, *optimizer, facts, 1);
  ShardServer server(
      table, 0,
      {.micro_batches = 1,
       .pool_bytes = 1 << 26,
       .pulls = compress::Sender("\"fp16\"", 500, {.use = compress::MethodSetting::Use::kParameters}).method},
      *optimizer, outbox, sink);
  Putter putter;
  server.watch(&putter);
  load_all(server, 0, table, oracle);
  server.start(0);
  ASSERT_TRUE(server.on_message(0, rates(0, 2)));
  for (int64_t step = 0; step < 2; ++step)
    for (uint32_t b = 0; b < table.blocks().size(); ++b) {
      const Block& block = table.block(b);
      if (block.frozen()) continue;
      if (!block.pushed()) {
        ASSERT_TRUE(server.on_message(7, wire::Offer{step, b, 0, 1}));
      }
      for (uint32_t c = 0; c < block.chunks(); ++c)
        ASSERT_TRUE(server.on_message(7, wire::NodeChunk{.step = step, .block = b, .first = 0, .last = 1, .chunk = c},
                                      facts.chunk(step, b, {0, 1}, c)));
    }
  ASSERT_EQ(server.version(), 2);
  for (const float value : server.values(0)) EXPECT_NEAR(value, 100.0f, 20.0f);
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
