#include "node/shard_transfer.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace dtrain::node {
namespace {

class PartsSent final : public wire::Outbox {
 public:
  void send(wire::Rank, wire::Message message, wire::Payload payload) override {
    parts.emplace_back(std::get<wire::ShardPart>(message), std::move(payload));
  }
  std::vector<std::pair<wire::ShardPart, wire::Payload>> parts;
};

PartsSent parts_of(size_t size) {
  auto file = std::make_shared<std::string>(size, 'x');
  for (size_t i = 0; i < size; ++i) (*file)[i] = static_cast<char>(i * 7 + i / 251);
  PartsSent sent;
  send_shard(sent, 0, 9, file);
  return sent;
}

TEST(ShardTransfer, AFileComesWholeHoweverManyPartsItHas) {
  for (size_t size : {1u, 262'144u, 262'145u, 700'000u}) {
    const PartsSent sent = parts_of(size);
    EXPECT_EQ(sent.parts.size(), (size + 262'143) / 262'144);
    ShardInbox inbox;
    std::optional<std::string> file;
    for (const auto& [part, payload] : sent.parts) {
      EXPECT_FALSE(file);
      auto added = inbox.add(2, part, payload.bytes, size);
      ASSERT_TRUE(added);
      file = std::move(*added);
    }
    ASSERT_TRUE(file);
    EXPECT_EQ(*file, *std::static_pointer_cast<const std::string>(sent.parts.front().second.owner));
  }
}

TEST(ShardTransfer, TwoSendersDoNotMix) {
  const PartsSent sent = parts_of(300'000);
  ShardInbox inbox;
  for (wire::Rank from : {1u, 2u})
    ASSERT_TRUE(inbox.add(from, sent.parts[0].first, sent.parts[0].second.bytes, 300'000));
  for (wire::Rank from : {2u, 1u}) {
    const auto whole = inbox.add(from, sent.parts[1].first, sent.parts[1].second.bytes, 300'000);
    ASSERT_TRUE(whole);
    EXPECT_TRUE(*whole);
  }
}

TEST(ShardTransfer, PartsThatDoNotFitAreRefused) {
  const PartsSent sent = parts_of(300'000);
  const auto& [first, bytes] = sent.parts[0];
  const auto& [second, rest] = sent.parts[1];
  auto refused = [](ShardInbox& inbox, const wire::ShardPart& part, ByteSpan payload, uint64_t most = 300'000) {
    return !inbox.add(1, part, payload, most);
  };
  ShardInbox inbox;
  EXPECT_TRUE(refused(inbox, second, rest.bytes)) << "without the first";
  EXPECT_TRUE(refused(inbox, first, bytes.bytes, 299'999)) << "more than it can be";
  EXPECT_TRUE(refused(inbox, {9, 0, 0}, {})) << "an empty file";
  ASSERT_TRUE(inbox.add(1, first, bytes.bytes, 300'000));
  EXPECT_TRUE(refused(inbox, {8, second.offset, second.total}, rest.bytes)) << "of another version";
  EXPECT_TRUE(refused(inbox, second, rest.bytes)) << "after a mistake it must begin anew";
  ASSERT_TRUE(inbox.add(1, first, bytes.bytes, 300'000));
  EXPECT_TRUE(refused(inbox, {9, second.offset, second.total + 1}, rest.bytes)) << "of another length";
  ASSERT_TRUE(inbox.add(1, first, bytes.bytes, 300'000));
  EXPECT_TRUE(refused(inbox, second, bytes.bytes)) << "beyond its end";
  ASSERT_TRUE(inbox.add(1, first, bytes.bytes, 300'000));
  ASSERT_TRUE(inbox.add(1, second, rest.bytes, 300'000));
  EXPECT_TRUE(refused(inbox, first, bytes.bytes)) << "once more";
  EXPECT_FALSE(refused(inbox, {10, first.offset, first.total}, bytes.bytes)) << "the next one";
}

}  // namespace
}  // namespace dtrain::node
