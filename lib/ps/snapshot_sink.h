// What a shard server hands over when the coordinator wants a version written, and who takes it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "proto-free-wire/message.h"
#include "ps/row_store.h"
#include "tensor/buffer.h"

namespace dtrain::ps {

// A server's state at one version, its own to keep, on any thread: values and rows are never written again, slots are
// copies.
struct ShardState {
  struct BlockCopy {
    uint32_t block = 0;
    std::shared_ptr<const Buffer> values;
    std::vector<Buffer> slots;  // only of trainable ones
  };
  int64_t version = 0;
  std::vector<BlockCopy> blocks;  // ascending
  std::vector<KeptRows> rows;     // of every sparse table, this server's
};

// Gets the state that the coordinator wants written. Called within on_message; writes later, and answers SnapshotDone.
class SnapshotSink {
 public:
  virtual ~SnapshotSink() = default;
  virtual void snapshot(const wire::Snapshot& order, ShardState state) = 0;
};

}  // namespace dtrain::ps
