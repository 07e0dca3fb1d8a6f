#include "sim/scale/host.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "proto-free-wire/codec.h"
#include "proto-free-wire/receiver.h"

namespace dtrain::sim::scale {
namespace {

// What a socket's buffer takes ahead of the link.
constexpr uint64_t kSocketBuffer = 1u << 20;
// Of control messages, in one write and in one turn of the loop.
constexpr uint32_t kControlPerWrite = 64u << 10;
constexpr int kMessagesPerTurn = 32;

}  // namespace

Host::Host(World& world, uint32_t rank, cluster::Coordinator* coordinator)
    : world_(world), rank_(rank), coordinator_(coordinator) {}

void Host::start() { send(0, wire::Join{world_.computes(rank_), world_.serves(rank_), 1, rank_ + 1}); }

HostTimes Host::times() const {
  HostTimes times = times_;
  if (compute_) times.compute = compute_->busy();
  return times;
}

void Host::use_loop(double nanoseconds) {
  const Nanoseconds time = duration(nanoseconds);
  loop_free_ = later(std::max(loop_free_, world_.now), time);
  times_.loop = later(times_.loop, time);
}

// --- writing

void Host::join_ring(Ring& ring, uint32_t Peer::*next, uint32_t peer) {
  peers_[peer].*next = kNone;
  if (ring.first == kNone)
    ring.first = peer;
  else
    peers_[ring.last].*next = peer;
  ring.last = peer;
}

uint32_t Host::leave_ring(Ring& ring, uint32_t Peer::*next) {
  const uint32_t peer = ring.first;
  ring.first = peers_[peer].*next;
  return peer;
}

void Host::send(wire::Rank to, wire::Message message, wire::Payload payload) {
  const uint32_t frame = world_.frames.make(rank_, to, std::move(message), payload.bytes.size());
  if (to == rank_) {
    world_.frames[frame].at = std::max(world_.now, loop_free_);
    local_.push(world_.frames, frame);
    wake_loop();
    return;
  }
  if (peers_.size() <= to) peers_.resize(to + 1);
  Peer& peer = peers_[to];
  if (payload.bytes.empty()) {
    if (peer.control.empty()) join_ring(control_, &Peer::next_control, to);
    peer.control.push(world_.frames, frame);
  } else {
    if (peer.tensors.empty()) join_ring(tensors_, &Peer::next_tensors, to);
    peer.tensors.push_back({world_.frames[frame].block, numbers_++, frame});
    std::push_heap(peer.tensors.begin(), peer.tensors.end());
  }
  start_writing();
}

void Host::start_writing() {
  if (writing_ || (control_.first == kNone && tensors_.first == kNone)) return;
  writing_ = true;
  const Instant buffered = wire_free_ - world_.model.link.time(kSocketBuffer);
  world_.events.push({std::max({world_.now, loop_free_, buffered}), Event::Kind::kSend, rank_, 0});
}

// All control for one peer, or one tensor.
void Host::write() {
  writing_ = false;
  Frames& frames = world_.frames;
  FrameList batch;
  uint64_t bytes = 0;
  uint32_t to = kNone;
  if (control_.first != kNone) {
    to = leave_ring(control_, &Peer::next_control);
    FrameList& list = peers_[to].control;
    while (!list.empty() && bytes < kControlPerWrite) {
      const uint32_t frame = list.pop(frames);
      bytes += frames[frame].bytes;
      batch.push(frames, frame);
    }
    if (!list.empty()) join_ring(control_, &Peer::next_control, to);
  } else {
    to = leave_ring(tensors_, &Peer::next_tensors);
    std::vector<Tensor>& tensors = peers_[to].tensors;
    std::pop_heap(tensors.begin(), tensors.end());
    const uint32_t frame = tensors.back().frame;
    tensors.pop_back();
    bytes = frames[frame].bytes + frames[frame].payload;
    batch.push(frames, frame);
    if (!tensors.empty()) join_ring(tensors_, &Peer::next_tensors, to);
  }
  const Link& link = world_.model.link;
  // Copied and transmitted at the same time.
  const Instant begin = std::max({world_.now, loop_free_, wire_free_});
  use_loop(world_.model.costs.write + world_.model.costs.send * static_cast<double>(bytes));
  const Nanoseconds time = link.time(bytes);
  wire_free_ = std::max(later(begin, time), loop_free_);
  times_.out = later(times_.out, time);
  for (uint32_t f = batch.first; f != kNone; f = frames[f].next) frames[f].at = wire_free_ + link.latency;
  world_.events.push({begin + link.latency, Event::Kind::kArrive, to, batch.first});
  start_writing();
}

// --- reading

void Host::arrive(uint32_t frame) {
  Frames& frames = world_.frames;
  while (frame != kNone) {
    Frame& f = frames[frame];
    const uint32_t next = f.next;
    const Nanoseconds time = world_.model.link.time(f.bytes + f.payload);
    times_.in = later(times_.in, time);
    wire_in_free_ = later(std::max(wire_in_free_, world_.now), time);
    // A sparse flow does not wait for what others have queued.
    if (f.payload > 0) f.at = std::max(f.at, wire_in_free_);
    (f.payload > 0 ? arrived_tensors_ : arrived_control_).push(frames, frame);
    frame = next;
  }
  wake_loop();
}

void Host::wake_loop() {
  Instant at = INT64_MAX;
  for (const FrameList* list : {&arrived_control_, &local_, &arrived_tensors_})
    if (!list->empty()) at = std::min(at, world_.frames[list->first].at);
  if (at == INT64_MAX) return;
  at = std::max({at, loop_free_, world_.now});
  if (turn_at_ >= 0 && turn_at_ <= at) return;
  turn_at_ = at;
  world_.events.push({at, Event::Kind::kTurn, rank_, 0});
}

// The first that has come; kNone where none has.
uint32_t Host::next_arrived() {
  FrameList* first = nullptr;
  for (FrameList* list : {&arrived_control_, &local_, &arrived_tensors_}) {
    if (list->empty() || world_.frames[list->first].at > world_.now) continue;
    if (!first || world_.frames[list->first].at < world_.frames[first->first].at) first = list;
  }
  return first ? first->pop(world_.frames) : kNone;
}

void Host::turn() {
  if (turn_at_ != world_.now) return;  // another one came before
  turn_at_ = -1;
  if (loop_free_ <= world_.now) {
    bool tensor = false;
    for (int i = 0; i < kMessagesPerTurn && !tensor; ++i) {
      const uint32_t frame = next_arrived();
      if (frame == kNone) break;
      tensor = world_.frames[frame].payload > 0;
      handle(frame);
    }
  }
  wake_loop();
  start_writing();
}

void Host::handle(uint32_t number) {
  const Frame f = world_.frames[number];
  const wire::Message message = world_.frames.take(number);
  const HostCosts& costs = world_.model.costs;
  ++world_.messages;
  double time = costs.message;
  if (f.from != rank_) time += costs.receive * f.payload;
  ByteSpan payload;
  if (f.payload > 0) {
    const float* at = world_.memory.of(world_.table.block(f.block)) + f.chunk * ps::kChunkElements;
    payload = {reinterpret_cast<const std::byte*>(at), f.payload};
  }
  if (f.type == wire::MessageType::kParameterChunk && f.from == rank_) time += costs.add * f.payload;  // a copy
  use_loop(time);
  if (wire::receiver(f.type) == wire::Receiver::kCoordinator) times_.coordinator = later(times_.coordinator, duration(time));

  const uint64_t summed = server_ ? server_->counters().bytes_taken : 0;
  const uint64_t commits = server_ ? server_->counters().commits : 0;
  const Status status = deliver(f.from, message, payload);
  DTRAIN_CHECK(status.has_value(), "host {} breaks the protocol towards {}: {} ({})", f.from, rank_,
               status ? "" : status.error().message, wire::print(message));
  if (!server_) return;
  double sums = costs.add * static_cast<double>(server_->counters().bytes_taken - summed);
  // Of a block that committed with this message; what commits with a rate is not told apart.
  if (server_->counters().commits > commits)
    sums += costs.update * static_cast<double>(world_.table.block(f.block).elements) * sizeof(float);
  if (sums == 0) return;
  times_.sums = later(times_.sums, duration(sums));
  use_loop(sums);
}

Status Host::deliver(wire::Rank from, const wire::Message& message, ByteSpan payload) {
  switch (wire::receiver(wire::type_of(message))) {
    case wire::Receiver::kCoordinator:
      return coordinator_->on_message(from, message);
    case wire::Receiver::kServer:
      return server_ ? server_->on_message(from, message, payload) : Status();
    case wire::Receiver::kWorker:
      return compute_ ? compute_->on_message(from, message, payload, loop_free_) : Status();
    case wire::Receiver::kTask:
      if (std::holds_alternative<wire::Begin>(message)) begin();
      if (std::holds_alternative<wire::Stop>(message)) send(0, wire::Stopped{});
      break;
    case wire::Receiver::kDesk:
    case wire::Receiver::kConnection:
      DTRAIN_CHECK(false, "a message of type {} is not simulated", static_cast<int>(wire::type_of(message)));
  }
  return {};
}

void Host::begin() {
  if (world_.serves(rank_)) {
    ps::ShardServerOptions options;
    options.micro_batches = world_.micro_batches;
    options.norms = world_.norms;
    options.pool_bytes = world_.model.pool_bytes(world_.micro_batches);
    options.rule = world_.model.rule;
    options.counts_only = true;
    server_ = std::make_unique<ps::ShardServer>(world_.table, rank_, std::move(options), *world_.model.optimizer, *this,
                                                *this);
    for (const uint32_t id : world_.table.of_server(rank_)) {
      const ps::Block& block = world_.table.block(id);
      server_->load(id, {world_.memory.of(block), static_cast<size_t>(block.elements)});
    }
    server_->start(0);
  }
  if (world_.computes(rank_)) compute_ = std::make_unique<ComputeSide>(world_, rank_, *this);
  send(0, wire::Ready{});
}

}  // namespace dtrain::sim::scale
