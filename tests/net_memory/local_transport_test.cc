#include "net/memory/local_transport.h"

#include <gtest/gtest.h>

#include "tests/net/recording_handler.h"

namespace dtrain::net {
namespace {

TEST(LocalTransport, DeliversInOrderAndNeverFromInsideSend) {
  LocalTransport transport;
  RecordingHandler handler;
  transport.start(handler);
  handler.when_message = [&](Rank, const wire::Message& message, ByteSpan) {
    if (const auto* ready = std::get_if<wire::Committed>(&message); ready != nullptr && ready->version == 1) {
      transport.send(0, wire::Committed{3});
      EXPECT_EQ(handler.lines.size(), 1u);
    }
  };
  transport.send(0, wire::Committed{1});
  transport.send(0, wire::Committed{2});
  EXPECT_TRUE(handler.lines.empty());
  EXPECT_EQ(transport.pump(), 3u);
  EXPECT_EQ(handler.lines, (std::vector<std::string>{"0: Committed{version=1}", "0: Committed{version=2}",
                                                     "0: Committed{version=3}"}));
  EXPECT_FALSE(transport.pump_one());
}

TEST(LocalTransport, PayloadPassesByPointerAndIsReleased) {
  LocalTransport transport;
  RecordingHandler handler;
  transport.start(handler);
  auto tensor = std::make_shared<std::vector<float>>(10, 1.0f);
  const std::weak_ptr<std::vector<float>> watch = tensor;
  const void* seen = nullptr;
  handler.when_message = [&](Rank, const wire::Message&, ByteSpan payload) { seen = payload.data(); };
  const void* sent = tensor->data();
  transport.send(0, wire::NodeChunk{}, {std::as_bytes(std::span(*tensor)), tensor});
  tensor.reset();
  EXPECT_EQ(transport.queued_bytes(0), 40u);
  transport.pump();
  EXPECT_EQ(seen, sent);
  EXPECT_EQ(transport.queued_bytes(0), 0u);
  EXPECT_TRUE(watch.expired());
}

TEST(LocalTransport, DropsWhatIsForOthers) {
  LocalTransport transport;
  RecordingHandler handler;
  transport.start(handler);
  transport.send(1, wire::Ready{});
  EXPECT_EQ(transport.pump(), 0u);
  EXPECT_TRUE(transport.connected(0));
  EXPECT_FALSE(transport.connected(1));
}

}  // namespace
}  // namespace dtrain::net
