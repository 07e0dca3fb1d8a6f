// Tensors that go to a task on the same host by reference, and peers that get it wrong.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <future>

#include "net/asio/peer_memory.h"
#include "tensor/buffer.h"
#include "tests/net_asio/raw_peer.h"
#include "tests/net_asio/task.h"

namespace dtrain::net {
namespace {

using ::testing::HasSubstr;

constexpr size_t kBytes = 64u << 10;

std::shared_ptr<SharedMemory> make_memory() { return *SharedMemory::create(); }

// A sealed file of a region, as SharedMemory makes it; or one without these seals.
UniqueFd make_file(size_t bytes, int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE) {
  UniqueFd file(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(::ftruncate(file.get(), static_cast<off_t>(bytes)), 0);
  EXPECT_EQ(::fcntl(file.get(), F_ADD_SEALS, seals), 0);
  return file;
}

// Two tasks of one host, of which the worker has memory to share; what the server sees of a payload.
class Pair {
 public:
  explicit Pair(std::shared_ptr<SharedMemory> memory, AsioConfig served = server_config())
      : server(std::move(served), false) {
    server.begin();
    AsioConfig config = worker_config(server.transport->port());
    config.memory = std::move(memory);
    worker = std::make_unique<Task>(std::move(config));
    worker->events.await("connected 0");
    server.events.await("connected 1");
  }
  // Sends the first kBytes of `buffer` until they go by reference: until the receiver sees what is written meanwhile.
  void send_until_referred(Buffer& buffer) {
    std::atomic<bool> seen = false;
    std::promise<void> done;
    server.when_message = [&](Rank, const wire::Message&, ByteSpan payload) {
      auto* const mine = const_cast<volatile std::byte*>(buffer.data());
      *mine = std::byte{1};
      *mine = std::byte{2};
      if (payload[0] == std::byte{2}) {
        *mine = std::byte{3};
        if (*const_cast<const volatile std::byte*>(payload.data()) == std::byte{3} && !seen.exchange(true))
          done.set_value();
      }
    };
    auto future = done.get_future();
    const auto until = std::chrono::steady_clock::now() + kPatience;
    while (future.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
      ASSERT_LT(std::chrono::steady_clock::now(), until) << "never by reference";
      send(buffer, nullptr);
    }
    server.when_message = nullptr;
  }
  void send(const Buffer& buffer, std::shared_ptr<const void> owner) {
    worker->send(0, wire::NodeChunk{.step = 1}, {{buffer.data(), kBytes}, std::move(owner)});
  }

  Task server;
  std::unique_ptr<Task> worker;
};

TEST(SharedTensors, GoByReferenceAndAreGivenBackWhenRead) {
  const auto memory = make_memory();
  Buffer buffer(kBytes, memory);
  buffer.zero();
  Pair pair(memory);
  pair.send_until_referred(buffer);

  std::promise<void> entered, leave;
  pair.server.when_message = [&](Rank, const wire::Message&, ByteSpan payload) {
    EXPECT_EQ(payload.size(), kBytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(payload.data()) % Buffer::kAlignment, 0u);
    entered.set_value();
    leave.get_future().wait();
  };
  Lines given_back;
  std::shared_ptr<const void> owner(buffer.data(), [&](const void*) { given_back.add("given back"); });
  pair.send(buffer, std::move(owner));
  entered.get_future().wait();
  pair.worker->on_loop([](Transport&) {});
  EXPECT_EQ(given_back.count("given back"), 0u) << "it is being read";
  pair.server.when_message = nullptr;
  leave.set_value();
  given_back.await("given back");
}

TEST(SharedTensors, OfALostPeerAreHeldUntilItReadsNoMore) {
  const auto memory = make_memory();
  Buffer buffer(kBytes, memory);
  buffer.zero();
  Pair pair(memory);
  pair.send_until_referred(buffer);

  std::promise<void> entered, leave;
  pair.server.when_message = [&](Rank, const wire::Message&, ByteSpan payload) {
    entered.set_value();
    leave.get_future().wait();
    EXPECT_EQ(payload[7], std::byte{0}) << "nobody has used it for anything else";
  };
  Lines given_back;
  std::shared_ptr<const void> owner(buffer.data(), [&](const void*) { given_back.add("given back"); });
  pair.send(buffer, std::move(owner));
  entered.get_future().wait();
  pair.worker->on_loop([](Transport& t) { t.disconnect(0, "given up"); });
  pair.worker->events.await("lost 0: given up");
  pair.worker->on_loop([](Transport&) {});
  EXPECT_EQ(given_back.count("given back"), 0u) << "the peer is still reading";
  leave.set_value();
  given_back.await("given back");
  pair.server.when_message = nullptr;
}

TEST(SharedTensors, SurviveTheSendersDeath) {
  const auto memory = make_memory();
  auto buffer = std::make_shared<Buffer>(SharedMemory::kOwnRegion, memory);
  Pair pair(memory);
  pair.send_until_referred(*buffer);
  std::fill_n(buffer->as<float>().data(), buffer->size() / sizeof(float), 5.0f);

  std::promise<void> entered, leave;
  double sum = 0;
  pair.server.when_message = [&](Rank, const wire::Message&, ByteSpan payload) {
    entered.set_value();
    leave.get_future().wait();
    for (const float value : std::span(reinterpret_cast<const float*>(payload.data()), payload.size() / 4))
      sum += value;
  };
  pair.send(*buffer, buffer);
  entered.get_future().wait();
  pair.worker.reset();
  buffer.reset();
  leave.set_value();
  pair.server.events.await("lost 1");
  EXPECT_EQ(sum, 5.0 * kBytes / 4);
}

TEST(SharedTensors, WhatLiesElsewhereIsCopied) {
  Buffer heap(kBytes), small(SharedMemory::kSmallest, nullptr);
  std::fill_n(heap.data(), kBytes, std::byte{4});
  Pair pair(make_memory());
  pair.server.when_message = [&](Rank, const wire::Message&, ByteSpan payload) {
    EXPECT_EQ(payload.size(), kBytes);
    EXPECT_EQ(payload[kBytes - 1], std::byte{4});
    heap.data()[0] = std::byte{9};
    EXPECT_EQ(payload[0], std::byte{4});
    heap.data()[0] = std::byte{4};
  };
  for (int i = 0; i < 5; ++i) pair.worker->send(0, wire::NodeChunk{.step = i}, {{heap.data(), kBytes}, nullptr});
  pair.server.events.await("step=4,");
}

// -- a peer of plain sockets; the server has memory --

class Raw {
 public:
  explicit Raw(RawPeer::Way way = RawPeer::Way::kHost)
      : memory(make_memory()), buffer(kBytes, memory), server(config()), peer(server.transport->port(), way) {
    peer.join();
    server.events.await("connected 1");
    buffer.zero();
  }
  AsioConfig config() const {
    AsioConfig c = server_config();
    c.memory = memory;
    return c;
  }
  void send() { server.send(1, wire::ParameterChunk{.block = 1}, {{buffer.data(), kBytes}, nullptr}); }
  template <typename M>
  M receive() {
    const auto message = peer.receive();
    EXPECT_TRUE(message && std::holds_alternative<M>(*message)) << (message ? wire::print(*message) : "nothing");
    return message && std::holds_alternative<M>(*message) ? std::get<M>(*message) : M{};
  }

  std::shared_ptr<SharedMemory> memory;
  Buffer buffer;
  Task server;
  RawPeer peer;
};

TEST(SharedTensors, AreCopiedUntilAPeerHasMappedThem) {
  Raw raw;
  raw.send();
  const auto offered = raw.receive<wire::MemoryOffered>();
  EXPECT_EQ(offered.bytes, SharedMemory::kRegion);
  raw.receive<wire::ParameterChunk>();
  EXPECT_FALSE(raw.peer.reference());
  raw.peer.send(wire::MemoryShared{offered.region, true});
  raw.peer.send(wire::Pull{});
  raw.server.events.await("1: Pull");
  raw.send();
  raw.receive<wire::ParameterChunk>();
  ASSERT_TRUE(raw.peer.reference());
  EXPECT_EQ(*raw.peer.reference(),
            (wire::MemoryReference{offered.region, raw.memory->find({raw.buffer.data(), 1})->offset, kBytes}));

  raw.peer.send(wire::MemoryRead{1});
  raw.peer.send(wire::MemoryRead{1});
  raw.server.events.await("lost 1: it says that it has read 1 tensors of 0 that are lent to it");
}

TEST(SharedTensors, AreCopiedForAPeerThatCannotMapThem) {
  Raw raw;
  raw.send();
  const auto offered = raw.receive<wire::MemoryOffered>();
  raw.receive<wire::ParameterChunk>();
  raw.peer.send(wire::MemoryShared{offered.region, false});
  raw.peer.send(wire::Pull{});
  raw.server.events.await("1: Pull");
  for (int i = 0; i < 3; ++i) {
    raw.send();
    raw.receive<wire::ParameterChunk>();
    EXPECT_FALSE(raw.peer.reference());
  }
}

TEST(SharedTensors, AreCopiedOverTcp) {
  Raw raw(RawPeer::Way::kTcp);
  for (int i = 0; i < 3; ++i) {
    raw.send();
    raw.receive<wire::ParameterChunk>();
    EXPECT_FALSE(raw.peer.reference());
  }
  raw.peer.send_reference(wire::NodeChunk{}, {1, 0, 4096});
  raw.server.events.await("lost 1: it refers to region 1, which it has not shared");
}

TEST(SharedTensors, ThatArePromisedToAPeerThatDiesAreGivenBack) {
  Raw raw;
  raw.send();
  const auto offered = raw.receive<wire::MemoryOffered>();
  raw.receive<wire::ParameterChunk>();
  raw.peer.send(wire::MemoryShared{offered.region, true});
  raw.peer.send(wire::Pull{});
  raw.server.events.await("1: Pull");
  Lines given_back;
  for (int i = 0; i < 100; ++i) {  // more than are lent at a time
    std::shared_ptr<const void> owner(raw.buffer.data(), [&](const void*) { given_back.add("given back"); });
    raw.server.send(1, wire::ParameterChunk{.block = 1}, {{raw.buffer.data(), kBytes}, std::move(owner)});
  }
  size_t lent = 0;
  for (; lent < 64; ++lent) raw.receive<wire::ParameterChunk>();  // 4 MiB
  EXPECT_EQ(given_back.count("given back"), 0u);
  raw.peer.close();
  raw.server.events.await("lost 1");
  raw.server.on_loop([](Transport&) {});
  EXPECT_EQ(given_back.count("given back"), 100u);
}

struct Mistake {
  const char* name;
  std::function<void(RawPeer&)> make;
  const char* reason;
};

TEST(SharedTensors, AMistakeLosesThePeer) {
  constexpr size_t kSize = 1u << 20;
  const auto offer = [](RawPeer& peer) {
    peer.send_with(wire::MemoryOffered{7, kSize}, make_file(kSize).get());
    const auto answer = peer.receive();
    ASSERT_TRUE(answer);
    EXPECT_EQ(wire::print(*answer), "MemoryShared{region=7, mapped=true}");
  };
  const Mistake mistakes[] = {
      {"not sealed",
       [](RawPeer& p) {
         p.send_with(wire::MemoryOffered{7, kSize}, make_file(kSize, 0).get());
       },
       "it offers region 7 of its memory which could shrink"},
      {"no memory",
       [](RawPeer& p) {
         p.send_with(wire::MemoryOffered{7, kSize}, 0);
       },
       "it offers region 7 of its memory which could shrink"},
      {"writable",
       [](RawPeer& p) {
         p.send_with(wire::MemoryOffered{7, kSize}, make_file(kSize, F_SEAL_SHRINK).get());
       },
       "it offers region 7 of its memory which others could write"},
      {"another size",
       [](RawPeer& p) {
         p.send_with(wire::MemoryOffered{7, 2 * kSize}, make_file(kSize).get());
       },
       "it offers region 7 of its memory with another size than it has"},
      {"twice",
       [&](RawPeer& p) {
         offer(p);
         p.send_with(wire::MemoryOffered{7, kSize}, make_file(kSize).get());
       },
       "it offers region 7 of its memory a second time"},
      {"beyond the end",
       [&](RawPeer& p) {
         offer(p);
         p.send_reference(wire::NodeChunk{}, {7, kSize - 64, 128});
       },
       "it refers to 128 bytes at 1048512 of a region of 1048576 bytes"},
      {"an offset that overflows",
       [&](RawPeer& p) {
         offer(p);
         p.send_reference(wire::NodeChunk{}, {7, UINT64_MAX - 63, 128});
       },
       "it refers to 128 bytes at 18446744073709551552 of a region of 1048576 bytes"},
      {"not aligned",
       [&](RawPeer& p) {
         offer(p);
         p.send_reference(wire::NodeChunk{}, {7, 4, 128});
       },
       "it refers to a tensor at 4, which is not aligned"},
      {"another region",
       [&](RawPeer& p) {
         offer(p);
         p.send_reference(wire::NodeChunk{}, {8, 0, 128});
       },
       "it refers to region 8, which it has not shared"},
      {"a region that is gone",
       [&](RawPeer& p) {
         offer(p);
         p.send(wire::MemoryGone{7});
         p.send_reference(wire::NodeChunk{}, {7, 0, 128});
       },
       "it refers to region 7, which it has not shared"},
      {"descriptors that nobody wants",
       [](RawPeer& p) {
         for (int i = 0; i < 40; ++i) p.send_with(wire::Pull{}, 0);
       },
       "it sent descriptors that nobody wants"},
  };
  for (const Mistake& mistake : mistakes) {
    SCOPED_TRACE(mistake.name);
    Raw raw;
    mistake.make(raw.peer);
    EXPECT_THAT(raw.server.events.await("lost 1"), HasSubstr(mistake.reason));
  }
}

TEST(SharedTensors, AreReadWhereThePeerPutThem) {
  Raw raw;
  UniqueFd file(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  std::vector<float> values(1024);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  ASSERT_EQ(::pwrite(file.get(), values.data(), 4096, 4096), 4096);
  ASSERT_EQ(::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_WRITE), 0);
  std::vector<float> seen;
  raw.server.when_message = [&](Rank, const wire::Message&, ByteSpan payload) {
    seen.assign(reinterpret_cast<const float*>(payload.data()),
                reinterpret_cast<const float*>(payload.data() + payload.size()));
  };
  raw.peer.send_with(wire::MemoryOffered{3, 8192}, file.get());
  EXPECT_EQ(wire::print(*raw.peer.receive()), "MemoryShared{region=3, mapped=true}");
  raw.peer.send_reference(wire::NodeChunk{}, {3, 4096, 4096});
  EXPECT_EQ(wire::print(*raw.peer.receive()), "MemoryRead{count=1}");
  raw.server.on_loop([](Transport&) {});
  EXPECT_EQ(seen, values);
}

TEST(SharedTensors, AStrangersDescriptorsAreNotKept) {
  Task server(server_config());
  RawPeer peer(server.transport->port(), RawPeer::Way::kHost);
  peer.send_with(wire::Heartbeat{}, 0);
  EXPECT_TRUE(peer.closed());
  EXPECT_TRUE(server.events.all().empty());
}

}  // namespace
}  // namespace dtrain::net
