// Two transports, each on its own loop, over loopback.
#include "net/asio/asio_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>

#include "tests/net_asio/task.h"

namespace dtrain::net {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr size_t kChunk = 65'536;  // floats

wire::Payload chunk_of(float value, size_t floats = kChunk) {
  auto tensor = std::make_shared<std::vector<float>>(floats, value);
  return {std::as_bytes(std::span(*tensor)), tensor};
}

TEST(AsioTransport, ConnectsAndKeepsTheOrderInBothDirections) {
  Task server(server_config());
  Task worker(worker_config(server.transport->port()));
  worker.events.await("connected 0 incarnation 100");
  server.events.await("connected 1 incarnation 200");
  for (int i = 0; i < 100; ++i) {
    worker.send(0, wire::Committed{i});
    server.send(1, wire::Committed{i});
  }
  server.events.await("version=99");
  worker.events.await("version=99");
  for (Task* task : {&server, &worker}) {
    const std::vector<std::string> lines = task->events.all();
    ASSERT_EQ(lines.size(), 101u);
    for (size_t i = 0; i < 100; ++i) EXPECT_THAT(lines[i + 1], HasSubstr("version=" + std::to_string(i) + "}"));
  }
}

TEST(AsioTransport, BigTensorsInBothDirectionsAtOnce) {
  constexpr uint32_t kChunks = 40;  // 10 MB
  const auto check = [](Rank, const wire::Message& message, ByteSpan payload) {
    const auto& chunk = std::get<wire::NodeChunk>(message);
    ASSERT_EQ(payload.size(), kChunk * sizeof(float));
    std::vector<float> values(kChunk);
    std::memcpy(values.data(), payload.data(), payload.size());
    for (const float v : values) ASSERT_EQ(v, static_cast<float>(chunk.chunk));
  };
  Task server(server_config(), false);
  server.when_message = check;
  server.begin();
  Task worker(worker_config(server.transport->port()), false);
  worker.when_message = check;
  worker.begin();
  worker.events.await("connected");
  server.events.await("connected");
  for (const auto& [task, to] : {std::pair(&worker, Rank{0}), std::pair(&server, Rank{1})}) {
    task->on_loop([to = to](Transport& t) {
      for (uint32_t i = 0; i < kChunks; ++i) {
        t.send(to, wire::NodeChunk{.chunk = i}, chunk_of(static_cast<float>(i)));
      }
      EXPECT_EQ(t.queued_bytes(to), kChunks * kChunk * sizeof(float));
    });
  }
  server.events.await("chunk=39");
  worker.events.await("chunk=39");
  EXPECT_EQ(server.events.count("NodeChunk"), kChunks);
  EXPECT_EQ(worker.events.count("NodeChunk"), kChunks);
}

TEST(AsioTransport, ControlOvertakesTensors) {
  Task server(server_config());
  Task worker(worker_config(server.transport->port()));
  worker.events.await("connected");
  server.events.await("connected");
  worker.on_loop([](Transport& t) {
    for (uint32_t i = 0; i < 20; ++i) t.send(0, wire::NodeChunk{.chunk = i}, chunk_of(1.0f));
    t.send(0, wire::Ready{});
  });
  server.events.await("chunk=19");
  const std::vector<std::string> lines = server.events.all();
  EXPECT_EQ(lines[1], "1: Ready{}");
}

TEST(AsioTransport, PayloadIsHeldUntilItIsSentAndNoLonger) {
  Task server(server_config());
  Task worker(worker_config(server.transport->port()));
  worker.events.await("connected");
  server.events.await("connected");
  wire::Payload payload = chunk_of(1.0f);
  const std::weak_ptr<const void> watch = payload.owner;
  worker.on_loop([&](Transport& t) {
    t.send(0, wire::NodeChunk{}, std::exchange(payload, {}));
    EXPECT_FALSE(watch.expired());
  });
  server.events.await("NodeChunk");
  worker.send(0, wire::Ready{});
  server.events.await("Ready");
  worker.on_loop([&](Transport& t) {
    EXPECT_TRUE(watch.expired());
    EXPECT_EQ(t.queued_bytes(0), 0u);
  });
}

TEST(AsioTransport, OwnMessagesComeLaterByPointer) {
  Task server(server_config(), false);
  const void* seen = nullptr;
  server.when_message = [&](Rank, const wire::Message&, ByteSpan payload) { seen = payload.data(); };
  server.begin();
  const wire::Payload payload = chunk_of(1.0f);
  server.on_loop([&](Transport& t) {
    t.send(0, wire::NodeChunk{}, payload);
    EXPECT_EQ(seen, nullptr);
    EXPECT_TRUE(t.connected(0));
  });
  server.events.await("0: NodeChunk");
  EXPECT_EQ(seen, payload.bytes.data());
}

TEST(AsioTransport, WhatIsForNobodyIsDropped) {
  Task server(server_config());
  server.send(1, wire::Ready{});
  server.on_loop([](Transport& t) {
    EXPECT_FALSE(t.connected(1));
    EXPECT_EQ(t.queued_bytes(1), 0u);
  });
}

TEST(AsioTransport, WorksByNameAndByIpv6) {
  for (const char* host : {"localhost", "::1"}) {
    LinesLog log;
    if (!AsioTransport::create(server_config(host), log)) continue;  // a machine without IPv6
    Task server(server_config(host));
    Task worker(worker_config(server.transport->port(), host));
    worker.events.await("connected 0");
  }
}

TEST(AsioTransport, ADifferenceIsRefusedWithItsField) {
  Task server(server_config());
  AsioConfig config = worker_config(server.transport->port());
  config.hello.run_digest.fill(0xab);
  Task worker(std::move(config));
  EXPECT_EQ(worker.events.await("refused by 0"),
            "refused by 0: Refuse{exit_code=2, field=\"run_digest\", ours=\"0000000000000000\", "
            "theirs=\"abababababababab\"}");
  EXPECT_THAT(server.log.lines.await("refused a task"), HasSubstr("run_digest differs"));
  EXPECT_EQ(server.events.count("connected"), 0u);
}

TEST(AsioTransport, TheCallersCheckDecides) {
  AsioConfig config = server_config();
  config.check = [](const wire::Hello& hello) -> std::optional<wire::Refuse> {
    return wire::Refuse{6, "secret", "", hello.program};
  };
  Task server(std::move(config));
  Task worker(worker_config(server.transport->port()));
  EXPECT_THAT(worker.events.await("refused by 0"), HasSubstr("exit_code=6, field=\"secret\""));
}

TEST(AsioTransport, WhoeverIsMistakenAboutRanksIsRefused) {
  Task server(server_config());
  AsioConfig config = worker_config(server.transport->port());
  config.endpoints[2].port = server.transport->port();
  config.dial = {2};
  Task mistaken(std::move(config));
  EXPECT_THAT(mistaken.events.await("refused by 2"), HasSubstr("field=\"wanted_rank\", ours=\"0\", theirs=\"2\""));

  AsioConfig impostor = worker_config(server.transport->port());
  impostor.endpoints.resize(8);
  impostor.self = 7;
  impostor.endpoints[7] = {"x", "127.0.0.1", 0};
  Task unknown(std::move(impostor));
  EXPECT_THAT(unknown.events.await("refused by 0"), HasSubstr("field=\"rank\""));
}

TEST(AsioTransport, AKilledPeerComesBackAsAnotherIncarnation) {
  Task server(server_config());
  const uint16_t port = server.transport->port();
  auto worker = std::make_unique<Task>(worker_config(port));
  server.events.await("connected 1 incarnation 200");
  worker.reset();
  server.events.await("lost 1: ");
  AsioConfig config = worker_config(port);
  config.hello.incarnation = 201;
  Task again(std::move(config));
  again.events.await("connected 0");
  server.events.await("connected 1 incarnation 201");
}

TEST(AsioTransport, AServerThatComesBackIsDialledAgain) {
  auto server = std::make_unique<Task>(server_config());
  const uint16_t port = server->transport->port();
  Task worker(worker_config(port));
  worker.events.await("connected 0 incarnation 100");
  server.reset();
  worker.events.await("lost 0: ");
  AsioConfig config = server_config();
  config.endpoints[0].port = port;  // SO_REUSEADDR: at once
  config.hello.incarnation = 101;
  Task again(std::move(config));
  worker.events.await("connected 0 incarnation 101");
}

TEST(AsioTransport, ASecondIncarnationIsRefusedWhileTheFirstLives) {
  AsioConfig config = server_config();
  config.timeouts.heartbeat = 20 * kMillisecond;
  Task server(std::move(config));
  AsioConfig first_config = worker_config(server.transport->port());
  first_config.timeouts.heartbeat = 20 * kMillisecond;
  Task first(std::move(first_config));
  server.events.await("connected 1 incarnation 200");
  AsioConfig second_config = worker_config(server.transport->port());
  second_config.hello.incarnation = 201;
  Task second(std::move(second_config));
  EXPECT_THAT(second.events.await("refused by 0"),
              HasSubstr("field=\"incarnation\", ours=\"/job:worker/task:0 runs already\""));
  first.send(0, wire::Ready{});
  server.events.await("1: Ready{}");
  EXPECT_EQ(server.events.count("lost"), 0u);
  EXPECT_EQ(first.events.count("lost"), 0u);
}

TEST(AsioTransport, HeartbeatsKeepAnIdleConnection) {
  AsioConfig config = server_config();
  config.timeouts.heartbeat = 10 * kMillisecond;
  config.timeouts.peer = 100 * kMillisecond;
  Task server(config);
  AsioConfig other = worker_config(server.transport->port());
  other.timeouts = config.timeouts;
  Task worker(std::move(other));
  worker.events.await("connected");
  server.events.await("connected");
  // Three times the silence that would end it.
  std::promise<void> later;
  server.transport->after(300 * kMillisecond, [&] { later.set_value(); });
  later.get_future().wait();
  EXPECT_EQ(server.events.count("lost"), 0u);
  EXPECT_EQ(worker.events.count("lost"), 0u);
  EXPECT_THAT(server.events.all(), ElementsAre(StartsWith("connected")));  // heartbeats are not delivered
}

TEST(AsioTransport, DisconnectIsALossOnBothSidesAndTheLinkComesBack) {
  Task server(server_config());
  Task worker(worker_config(server.transport->port()));
  server.events.await("connected");
  server.on_loop([&](Transport& t) {
    t.disconnect(1, "evicted");
    EXPECT_EQ(server.events.count("lost"), 0u);
  });
  server.events.await("lost 1: evicted");
  worker.events.await("lost 0: ");
  server.events.clear();
  server.events.await("connected 1 incarnation 200");
}

TEST(AsioTransport, DrainsBeforeItCloses) {
  Task server(server_config());
  Task worker(worker_config(server.transport->port()));
  worker.events.await("connected");
  server.events.await("connected");
  std::promise<void> drained;
  worker.on_loop([&](Transport& t) {
    for (uint32_t i = 0; i < 16; ++i) t.send(0, wire::NodeChunk{.chunk = i}, chunk_of(1.0f));
    t.send(0, wire::Stopped{});
    worker.transport->drain_and_close(20 * kSecond, [&] { drained.set_value(); });
    t.send(0, wire::Ready{});  // too late
  });
  drained.get_future().wait();
  server.events.await("lost 1: it closed the connection");
  EXPECT_EQ(server.events.count("NodeChunk"), 16u);
  EXPECT_EQ(server.events.count("Stopped"), 1u);
  EXPECT_EQ(server.events.count("Ready"), 0u);
  EXPECT_EQ(worker.events.count("lost"), 0u);
}

TEST(AsioTransport, SaysWhoIsWaitedForAndGivesUpInTime) {
  AsioConfig config = worker_config(1);  // nobody listens at port 1
  config.awaited = {2};
  config.timeouts.progress = 20 * kMillisecond;
  config.timeouts.start = 200 * kMillisecond;
  Task worker(std::move(config));
  EXPECT_EQ(worker.log.lines.await("waiting for /job:ps/task:0"),
            "waiting for /job:ps/task:0 at 127.0.0.1:1 (connection refused)");
  worker.log.lines.await("waiting for /job:worker/task:1 to connect");
  EXPECT_EQ(worker.events.await("unreachable"),
            "unreachable 0: /job:ps/task:0 at 127.0.0.1:1 could not be reached within 0.2 s: 127.0.0.1:1 (connection "
            "refused)");
}

TEST(AsioTransport, WhereNobodyListensItGivesUpSooner) {
  AsioConfig config = worker_config(1);
  config.timeouts.start = 1000 * kSecond;
  config.timeouts.refused = 100 * kMillisecond;
  Task worker(std::move(config));
  EXPECT_THAT(worker.events.await("unreachable"), HasSubstr("could not be reached within 0.1 s: 127.0.0.1:1 (conn"));
}

TEST(AsioTransport, ATaskWithoutAnAddressOnlyDials) {
  Task server(server_config());
  AsioConfig config = worker_config(server.transport->port());
  config.endpoints[config.self].host.clear();
  Task worker(std::move(config));
  EXPECT_THAT(server.events.await("connected"), HasSubstr("connected"));
  EXPECT_THAT(worker.events.await("connected"), HasSubstr("connected"));
}

TEST(AsioTransport, ANameThatDoesNotResolveIsSaid) {
  AsioConfig config = worker_config(1);
  config.endpoints[0].host = "no-such-host.invalid";
  config.timeouts.start = 100 * kMillisecond;
  Task worker(std::move(config));
  EXPECT_THAT(worker.events.await("unreachable"), HasSubstr("the name 'no-such-host.invalid' ("));
}

}  // namespace
}  // namespace dtrain::net
