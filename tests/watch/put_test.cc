#include <gmock/gmock.h>

#include <limits>

#include "tests/watch/small_cluster.h"

namespace dtrain::watch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr uint32_t kLinear = 1;

// Relays what the servers and the coordinator say to each other about puts.
class PutTest : public testing::Test {
 protected:
  void relay() {
    for (uint32_t s = 0; s < run.all.size(); ++s) {
      for (const auto& m : run.all[s]->transport.take<wire::PutStaged>(0))
        ASSERT_TRUE(run.all[0]->desk->on_message(s, m, {}, run.now));
    }
    for (uint32_t s = 0; s < run.all.size(); ++s) {
      for (const auto& m : run.all[0]->transport.take<wire::PutOrder>(s))
        ASSERT_TRUE(run.all[s]->desk->on_message(0, m, {}, run.now));
    }
  }
  // Says the wish to a server, and sends what it wants.
  void give(uint32_t s, uint64_t put, uint32_t tensor) {
    ASSERT_TRUE(run.guest(s, wire::Put{put, tensor}));
    for (const auto& m : run.all[s]->transport.take<wire::PutRanges>(kGuest)) {
      for (size_t r = 0; r < m.ranges.size(); r += 2) {
        for (int64_t first = m.ranges[r]; first < m.ranges[r] + m.ranges[r + 1]; first += kChunkElements) {
          const auto n = static_cast<size_t>(std::min(kChunkElements, m.ranges[r] + m.ranges[r + 1] - first));
          ASSERT_TRUE(run.guest(s, wire::PutChunk{put, first},
                                std::as_bytes(std::span(values).subspan(static_cast<size_t>(first), n))));
        }
      }
    }
  }
  void put_into_oracle(uint32_t tensor) {
    size_t at = 0;
    for (const uint32_t b : run.table.of_parameter(static_cast<ParameterIndex>(tensor)))
      for (float& x : run.oracle.values[b]) x = values[at++];
  }
  bool as_the_oracle(uint32_t tensor) {
    for (const uint32_t b : run.table.of_parameter(static_cast<ParameterIndex>(tensor)))
      if (!ps::same_bits(run.all[run.table.block(b).server]->server->values(b), run.oracle.values[b])) return false;
    return true;
  }

  SmallCluster run{2};
  std::vector<float> values = [] {
    std::vector<float> v(68000);
    for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i % 100) * 0.5f;
    return v;
  }();
};

TEST_F(PutTest, CountsAsTheFirstVersionWhoseRateNoServerKnows) {
  run.rates(2);
  give(0, 77, kLinear);
  give(1, 77, kLinear);
  relay();
  run.step(0);
  EXPECT_TRUE(as_the_oracle(kLinear));
  run.step(1);
  EXPECT_TRUE(as_the_oracle(kLinear));
  EXPECT_TRUE(run.all[0]->transport.take<wire::PutDone>(kGuest).empty());
  run.step(2);
  EXPECT_FALSE(as_the_oracle(kLinear));
  put_into_oracle(kLinear);
  EXPECT_TRUE(as_the_oracle(kLinear));
  run.all[0]->desk->on_progress(run.now);
  EXPECT_THAT(run.all[0]->transport.take<wire::PutDone>(kGuest), ElementsAre(wire::PutDone{77, 3, ""}));
  EXPECT_EQ(run.puts.at("linear.weight"), 3);
  run.step(3);  // goes on from there, with the optimizer's state as it was
  EXPECT_TRUE(as_the_oracle(kLinear));
}

TEST_F(PutTest, AReadOfThatVersionHasTheNewValues) {
  give(0, 77, kLinear);
  give(1, 77, kLinear);
  relay();
  const uint32_t s = run.table.block(run.table.of_parameter(kLinear)[0]).server;
  ASSERT_TRUE(run.guest(s, wire::Read{1, false, 1, {kLinear}}));
  run.step(0);
  EXPECT_TRUE(ps::same_bits(run.received(s, kLinear, 1), values));
}

TEST_F(PutTest, NothingHappensUntilAllServersHaveTheirPart) {
  for (const bool whole : {false, true}) {
    const uint32_t s = run.table.block(run.table.of_parameter(kLinear)[0]).server;
    ASSERT_TRUE(run.guest(0, wire::Put{5, kLinear}));
    if (s != 0) {
      ASSERT_TRUE(run.guest(s, wire::Put{5, kLinear}));
    }
    const ByteSpan all = std::as_bytes(std::span(values));
    ASSERT_TRUE(run.guest(s, wire::PutChunk{5, 0}, all.first(kChunkElements * 4)));
    if (whole) {
      ASSERT_TRUE(run.guest(s, wire::PutChunk{5, kChunkElements}, all.subspan(kChunkElements * 4)));
    }
    for (const auto& server : run.all) server->desk->on_lost(kGuest);
    relay();
    run.step(run.position.step);
    EXPECT_TRUE(as_the_oracle(kLinear)) << whole;
    EXPECT_TRUE(run.puts.empty());
    // A new wish is not held up by the one that was given up.
    run.all[0]->transport.sent.clear();
    for (const auto& server : run.all) server->desk->on_connected(kGuest, run.now);
  }
  give(0, 6, kLinear);
  give(1, 6, kLinear);
  relay();
  run.step(run.position.step);
  put_into_oracle(kLinear);
  EXPECT_TRUE(as_the_oracle(kLinear));
}

TEST_F(PutTest, IsRefusedWhereItCannotBe) {
  auto refusal = [&](wire::Rank guest, const wire::Put& put) {
    EXPECT_TRUE(run.guest(0, put, {}, guest));
    const auto done = run.all[0]->transport.take<wire::PutDone>(guest);
    return done.size() == 1 ? done[0].error : "";
  };
  ASSERT_TRUE(run.guest(0, wire::Put{1, kLinear}));
  EXPECT_THAT(refusal(kOtherGuest, {2, kLinear}), HasSubstr("another put is under way"));
  run.all[0]->desk->on_lost(kGuest);
  run.all[0]->transport.sent.clear();
  run.position.over = true;
  EXPECT_THAT(refusal(kGuest, {3, kLinear}), HasSubstr("over"));
  run.position.over = false;
  run.position.rated = run.position.steps;
  give(0, 4, kLinear);
  give(1, 4, kLinear);
  relay();
  EXPECT_THAT(run.all[0]->transport.take<wire::PutDone>(kGuest).at(0).error, HasSubstr("no step left"));

  SmallCluster closed(1, false);
  ASSERT_TRUE(closed.guest(0, wire::Put{1, kLinear}));
  EXPECT_THAT(closed.all[0]->transport.take<wire::PutDone>(kGuest).at(0).error, HasSubstr("--allow_put"));
}

TEST_F(PutTest, WrongPiecesAreAnErrorAndNotFiniteOnesARefusal) {
  const uint32_t s = run.table.block(run.table.of_parameter(kLinear)[0]).server;
  ASSERT_TRUE(run.guest(0, wire::Put{5, kLinear}));
  if (s != 0) {
    ASSERT_TRUE(run.guest(s, wire::Put{5, kLinear}));
  }
  const ByteSpan all = std::as_bytes(std::span(values));
  EXPECT_FALSE(run.guest(s, wire::PutChunk{5, 1}, all.first(4)));
  EXPECT_FALSE(run.guest(s, wire::PutChunk{5, 0}, all.first(4)));
  EXPECT_FALSE(run.guest(s, wire::PutChunk{5, 1 << 30}, all.first(4)));
  EXPECT_FALSE(run.guest(s, wire::PutChunk{5, std::numeric_limits<int64_t>::min()}, all.first(4)));
  ASSERT_TRUE(run.guest(s, wire::PutChunk{5, 0}, all.first(kChunkElements * 4)));
  EXPECT_FALSE(run.guest(s, wire::PutChunk{5, 0}, all.first(kChunkElements * 4)));
  values.back() = NAN;
  ASSERT_TRUE(run.guest(s, wire::PutChunk{5, kChunkElements}, all.subspan(kChunkElements * 4)));
  EXPECT_THAT(run.all[s]->transport.take<wire::PutDone>(kGuest).back().error, HasSubstr("not finite"));
}

TEST_F(PutTest, TheRunThatEndsBeforeSaysSo) {
  give(0, 77, kLinear);
  give(1, 77, kLinear);
  relay();
  run.position.over = true;
  run.all[0]->desk->on_progress(run.now);
  EXPECT_THAT(run.all[0]->transport.take<wire::PutDone>(kGuest).at(0).error, HasSubstr("the run ended before"));
  EXPECT_TRUE(run.puts.empty());
}

TEST_F(PutTest, IsGivenUpWhereTheValuesDoNotCome) {
  ASSERT_TRUE(run.guest(0, wire::Put{5, kLinear}));
  run.now += 121 * kSecond;
  run.all[0]->desk->on_tick(run.now);
  EXPECT_THAT(run.all[0]->transport.take<wire::PutDone>(kGuest).back().error, HasSubstr("in time"));
}

}  // namespace
}  // namespace dtrain::watch
