// Answers guests who read tensors of a shard server at one version. A version that the server still has is sent at
// once, one ahead when all blocks have it; nothing is copied: the buffers of a version are held until they are sent,
// which a server does not mind. So that guests cannot make it hold more than one version of all its blocks besides its
// own, a read waits while others are under way; and one guest has one read. Gradients are copied as their sums come by.
//
// State machine without I/O, on the thread of the server. Borrows what it is constructed with.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "base/result.h"
#include "net/transport.h"
#include "ps/block_table.h"
#include "ps/shard_server.h"

namespace dtrain::watch {

class ReadDesk {
 public:
  ReadDesk(const ps::BlockTable& table, net::Transport& transport) : table_(table), transport_(transport) {}

  // From now on there is something to read. `server` outlives this object.
  void serve(const ps::ShardServer& server, uint32_t index);
  wire::Standing standing(uint32_t request) const;

  // An error means that the guest breaks the protocol.
  Status on(wire::Rank guest, const wire::Read& read);
  void on_lost(wire::Rank guest);
  void on_tick();
  void on_root(uint32_t block, uint32_t chunk, int64_t step, std::span<const float> root);
  void on_commit(uint32_t block, int64_t version);

 private:
  struct Part {
    uint32_t block = 0;
    int64_t version = 0;
    std::shared_ptr<const Buffer> values;
    std::shared_ptr<Buffer> gradient;  // in the making
    uint32_t chunks = 0;               // of it, that are there
  };
  struct Reading {
    wire::Rank guest = 0;
    wire::Read read;
    std::vector<Part> parts;
    size_t missing = 0;
    size_t bytes = 0;
    bool held = false;  // its turn has come
  };

  int64_t version() const { return server_ ? server_->version() : -1; }
  void begin_waiting();
  void begin(Reading& reading);
  void finish(const Reading& reading);
  void gone(const Reading& reading);
  size_t held_bytes() const;
  void remove(wire::Rank guest);
  // Calls f(reading) for all that are under way, and takes those out for which it says that they are over.
  void for_each_held(const std::function<bool(Reading&)>& f);

  const ps::BlockTable& table_;
  net::Transport& transport_;
  const ps::ShardServer* server_ = nullptr;
  uint32_t index_ = 0;
  size_t server_bytes_ = 0;
  std::deque<Reading> readings_;          // in the order of their coming
  std::map<wire::Rank, size_t> sending_;  // guests that have been sent something, and how much of it still waits
};

}  // namespace dtrain::watch
