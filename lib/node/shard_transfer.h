// The way of a shard file to a coordinator on another disk: cut into parts that are sent in order, put together again
// there. One thread, the loop's.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "proto-free-wire/message.h"

namespace dtrain::node {

// Sends the file of version `version` in ShardParts; the bytes are shared with the messages, not copied.
void send_shard(wire::Outbox& outbox, wire::Rank to, int64_t version, const std::shared_ptr<const std::string>& file);

// What has come of the shards that servers send. A sender is not trusted: no more is kept for it than its shard can be.
class ShardInbox {
 public:
  // The whole file once its last part is there. `most` is what the sender's file can have in bytes. An error means that
  // the parts do not fit together, or that the file has come before; what had come of it is dropped.
  Result<std::optional<std::string>> add(wire::Rank from, const wire::ShardPart& part, ByteSpan payload, uint64_t most);

 private:
  struct Arriving {
    int64_t version = 0;
    uint64_t total = 0;
    std::string bytes;
  };
  std::map<wire::Rank, Arriving> arriving_;
  std::map<wire::Rank, int64_t> whole_;  // the version of each sender's last file
};

}  // namespace dtrain::node
