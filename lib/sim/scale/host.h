// One host of a simulated cluster: its link, the loop thread of its task, and the roles behind that: the real state
// machines. Modelled after net/asio: control messages are written at once, tensors one by one, the peers taking turns,
// to each those of the front of the network first; a message that is being taken keeps the loop from writing and the
// other way round. One thread.
#pragma once

#include <memory>
#include <vector>

#include "cluster/coordinator.h"
#include "ps/shard_server.h"
#include "sim/scale/compute_side.h"
#include "sim/scale/world.h"

namespace dtrain::sim::scale {

// Since the beginning. Of the link: bytes as time.
struct HostTimes {
  Nanoseconds out = 0, in = 0;  // of the link
  Nanoseconds loop = 0;         // all that the loop thread did,
  Nanoseconds sums = 0;         // of it additions and the optimizer,
  Nanoseconds coordinator = 0;  // of it the coordinator's messages
  Nanoseconds compute = 0;
};

class Host final : public wire::Outbox, public ps::SnapshotSink {
 public:
  // `coordinator` is of host 0 only.
  Host(World& world, uint32_t rank, cluster::Coordinator* coordinator);

  void start();  // joins
  void send(wire::Rank to, wire::Message message, wire::Payload payload = {}) override;
  void snapshot(const wire::Snapshot&, ps::ShardState) override {}

  // The first bit of a list of frames is there.
  void arrive(uint32_t frames);
  void write();
  void turn();
  void compute(uint32_t event) {
    compute_->go_on(event);
    start_writing();
  }

  HostTimes times() const;
  const ps::ShardServer* server() const { return server_.get(); }

 private:
  // What waits to be written to a peer.
  struct Tensor {
    uint32_t block = 0, number = 0, frame = 0;
    bool operator<(const Tensor& other) const {  // the heap's top is the largest
      return block != other.block ? block > other.block : number > other.number;
    }
  };
  struct Peer {
    FrameList control;
    std::vector<Tensor> tensors;                          // a heap
    uint32_t next_control = kNone, next_tensors = kNone;  // in the rings below
  };
  // Peers that have something, first come first served.
  struct Ring {
    uint32_t first = kNone, last = kNone;
  };
  void join_ring(Ring& ring, uint32_t Peer::*next, uint32_t peer);
  uint32_t leave_ring(Ring& ring, uint32_t Peer::*next);

  void start_writing();
  void wake_loop();
  uint32_t next_arrived();
  void handle(uint32_t frame);
  Status deliver(wire::Rank from, const wire::Message& message, ByteSpan payload);
  void begin();
  void use_loop(double nanoseconds);

  World& world_;
  const uint32_t rank_;
  cluster::Coordinator* const coordinator_;
  std::unique_ptr<ps::ShardServer> server_;
  std::unique_ptr<ComputeSide> compute_;

  std::vector<Peer> peers_;  // by rank, as far as something was sent there
  Ring control_, tensors_;
  uint32_t numbers_ = 0;
  bool writing_ = false;  // an event for it is pushed
  Instant wire_free_ = 0, wire_in_free_ = 0;

  FrameList arrived_control_, arrived_tensors_, local_;
  Instant loop_free_ = 0;
  Instant turn_at_ = -1;  // of the event for it; -1: none
  HostTimes times_;
};

}  // namespace dtrain::sim::scale
