// Takes new values of a tensor from a guest at a shard server, keeps them until the coordinator has said as which
// version they count, and puts them in the place of what a step has made when the blocks come to that version. The
// optimizer's state stays as it is.
//
// State machine without I/O, on the thread of the server. Borrows what it is constructed with.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "base/result.h"
#include "proto-free-wire/message.h"
#include "ps/block_table.h"
#include "tensor/buffer.h"

namespace dtrain::watch {

class PutDesk {
 public:
  PutDesk(const ps::BlockTable& table, uint32_t index, bool lockstep, wire::Outbox& outbox, wire::Rank coordinator)
      : table_(table), index_(index), lockstep_(lockstep), outbox_(outbox), coordinator_(coordinator) {}

  // An error means that the sender breaks the protocol.
  Status on(wire::Rank guest, const wire::Put& put);
  Status on(wire::Rank guest, const wire::PutChunk& chunk, ByteSpan payload);
  void on(const wire::PutOrder& order);
  // What is whole already stays: the coordinator knows of it and decides.
  void on_lost(wire::Rank guest);
  // Whether it has changed the values.
  bool on_commit(uint32_t block, int64_t version, std::span<float> values);

 private:
  struct Part {
    Buffer values;
    uint32_t missing = 0;  // bit i: chunk i has not come
  };
  struct Staged {
    wire::Rank guest = 0;
    wire::Put put;
    std::map<uint32_t, Part> parts;  // by block
    uint32_t missing = 0;            // chunks
  };
  struct Due {
    int64_t version = 0;
    Buffer values;
  };

  const ps::BlockTable& table_;
  const uint32_t index_;  // of the server
  const bool lockstep_;   // else blocks have versions of their own, and the next one is meant
  wire::Outbox& outbox_;
  const wire::Rank coordinator_;
  std::optional<Staged> staged_;  // one at a time
  std::map<uint32_t, Due> due_;   // by block
};

}  // namespace dtrain::watch
