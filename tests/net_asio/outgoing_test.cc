#include "net/asio/outgoing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "proto-free-wire/codec.h"
#include "proto-free-wire/frame_reader.h"
#include "tensor/buffer.h"
#include "tests/graph/allocation_count.h"

namespace dtrain::net {
namespace {

// Writes a batch in pieces of at most `most` bytes; what a peer reads of it, as text.
std::vector<std::string> write(Outgoing& out, size_t most = SIZE_MAX) {
  wire::FrameReader reader(wire::kPeerLimits);
  std::vector<std::string> read;
  while (!out.pieces().empty()) {
    size_t left = most, n = 0;
    for (const iovec& piece : out.pieces()) {
      const size_t part = std::min(left, piece.iov_len);
      for (size_t at = 0; at < part;) {
        const auto space = reader.space()[0];
        const size_t fits = std::min(space.size(), part - at);
        std::copy_n(static_cast<const std::byte*>(piece.iov_base) + at, fits, space.data());
        reader.filled(fits);
        at += fits;
        while (true) {
          auto frame = reader.next();
          EXPECT_TRUE(frame);
          if (!frame || !*frame) break;
          read.push_back(wire::print((*frame)->message) + ((*frame)->reference ? " by reference" : ""));
        }
      }
      n += part;
      left -= part;
    }
    out.written(n);
  }
  EXPECT_FALSE(reader.inside_frame());
  return read;
}

wire::NodeChunk chunk(uint32_t block, uint32_t chunk) { return {.step = 1, .block = block, .chunk = chunk}; }

TEST(Outgoing, ControlGoesBeforeTensorsAndTheFrontBeforeTheBack) {
  const Buffer tensor(200u << 10);
  const wire::Payload payload{{tensor.data(), tensor.size()}, nullptr};
  Outgoing out;
  out.add(wire::ShardPart{}, payload);
  out.add(chunk(5, 0), payload);
  out.add(chunk(3, 1), payload);
  out.add(chunk(3, 0), payload);
  out.add(wire::Ready{}, {});
  EXPECT_EQ(out.tensor_bytes(), 4 * tensor.size());
  ASSERT_TRUE(out.prepare());
  auto read = write(out, 1000);
  ASSERT_EQ(read.size(), 3u) << "about a chunk of tensors";
  EXPECT_EQ(read[0], "Ready{}");
  EXPECT_EQ(read[1], wire::print(chunk(3, 1)));
  EXPECT_EQ(read[2], wire::print(chunk(3, 0)));
  // What comes later and is of the front goes before what waits.
  out.add(chunk(0, 0), payload);
  out.add(wire::Stopped{}, {});
  ASSERT_TRUE(out.prepare());
  read = write(out);
  EXPECT_EQ(read, (std::vector<std::string>{"Stopped{}", wire::print(chunk(0, 0)), wire::print(chunk(5, 0))}));
  ASSERT_TRUE(out.prepare());
  EXPECT_EQ(write(out), std::vector<std::string>{wire::print(wire::ShardPart{})});
  EXPECT_FALSE(out.prepare());
  EXPECT_EQ(out.queued_bytes(), 0u);
}

TEST(Outgoing, EqualsKeepTheirOrder) {
  const Buffer tensor(64);
  Outgoing out;
  for (uint32_t i = 0; i < 100; ++i) {
    wire::ShardPart part;
    part.offset = i;
    out.add(part, {{tensor.data(), 64}, nullptr});
  }
  std::vector<std::string> read, expected;
  while (out.prepare())
    for (const std::string& text : write(out)) read.push_back(text);
  for (uint32_t i = 0; i < 100; ++i) {
    wire::ShardPart part;
    part.offset = i;
    expected.push_back(wire::print(part));
  }
  EXPECT_EQ(read, expected);
}

TEST(Outgoing, LendsSoMuchAtATime) {
  constexpr size_t kChunk = 256u << 10, kMost = 4u << 20;
  const auto memory = *SharedMemory::create();
  const Buffer tensor(kChunk, memory);
  Outgoing out;
  out.share(memory);
  std::vector<std::weak_ptr<int>> owners;
  const auto add = [&] {
    const auto owner = std::make_shared<int>(0);
    owners.push_back(owner);
    out.add(chunk(0, 0), {{tensor.data(), kChunk}, owner});
  };
  add();
  ASSERT_TRUE(out.prepare());
  EXPECT_EQ(out.descriptors().size(), 1u);
  EXPECT_EQ(write(out).size(), 2u) << "the offer, and the first by its bytes";
  EXPECT_TRUE(owners[0].expired());
  const uint32_t region = memory->find({tensor.data(), 1})->region->id;
  ASSERT_TRUE(out.on(wire::MemoryShared{region, true}));

  for (int i = 0; i < 40; ++i) add();
  size_t lent = 0;
  while (out.prepare())
    for (const std::string& text : write(out)) {
      EXPECT_EQ(text, wire::print(chunk(0, 0)) + " by reference");
      ++lent;
    }
  EXPECT_EQ(lent, kMost / kChunk);
  EXPECT_EQ(out.tensor_bytes(), (40 - lent) * kChunk);
  EXPECT_FALSE(owners[1].expired());
  EXPECT_TRUE(out.on(wire::MemoryRead{2}));
  EXPECT_TRUE(owners[2].expired());
  EXPECT_FALSE(owners[3].expired());
  ASSERT_TRUE(out.prepare());
  EXPECT_EQ(write(out).size(), 2u);
  EXPECT_FALSE(out.prepare());
  EXPECT_FALSE(out.on(wire::MemoryRead{1000}));
  out.drop();
  EXPECT_TRUE(out.lent());
  EXPECT_TRUE(owners[40].expired()) << "it was not lent";
  EXPECT_FALSE(owners[10].expired());
  out.take_back();
  EXPECT_TRUE(owners[10].expired());
}

// A round of what a step sends: control, tensors by their bytes and by reference, answers.
TEST(Outgoing, AllocatesNothingOnceItHasRun) {
  constexpr size_t kChunk = 256u << 10;
  const auto memory = *SharedMemory::create();
  const Buffer shared(kChunk, memory), heap(kChunk);
  Outgoing out;
  out.share(memory);
  const auto round = [&] {
    for (uint32_t i = 0; i < 20; ++i) {
      out.add(wire::Offer{.step = 1, .block = i}, {});
      out.add(chunk(20 - i, 0), {{(i % 2 ? shared : heap).data(), kChunk}, nullptr});
    }
    while (out.prepare())
      while (!out.pieces().empty()) out.written(std::min<size_t>(out.pieces()[0].iov_len, 100'000));
  };
  round();
  const uint32_t region = memory->find({shared.data(), 1})->region->id;
  ASSERT_TRUE(out.on(wire::MemoryShared{region, true}));
  for (int i = 0; i < 3; ++i) {
    round();
    ASSERT_TRUE(out.on(wire::MemoryRead{10}));
  }
  const int64_t before = graph::allocation_count();
  for (int i = 0; i < 100; ++i) {
    round();
    if (!out.on(wire::MemoryRead{10})) FAIL() << "ten are lent a round";
  }
  EXPECT_EQ(graph::allocation_count() - before, 0);
  EXPECT_EQ(out.queued_bytes(), 0u);
}

TEST(Outgoing, SaysWhichRegionIsGone) {
  const auto memory = *SharedMemory::create();
  Outgoing out;
  out.share(memory);
  uint32_t region;
  {
    const Buffer tensor(SharedMemory::kOwnRegion, memory);
    region = memory->find({tensor.data(), 1})->region->id;
    out.add(chunk(0, 0), {{tensor.data(), 9000}, nullptr});
    ASSERT_TRUE(out.prepare());
    write(out);
  }
  ASSERT_TRUE(out.prepare());
  EXPECT_EQ(write(out), std::vector<std::string>{wire::print(wire::MemoryGone{region})});
  EXPECT_FALSE(out.prepare());
  // Its number means nothing any more.
  EXPECT_TRUE(out.on(wire::MemoryShared{region, true}));
}

}  // namespace
}  // namespace dtrain::net
