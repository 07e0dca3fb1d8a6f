// What `dtrain benchmark wire` measures of dtrain: a worker's gradients through the transport into the sums of a real
// shard server, and its versions back. The server lives in the process that measures, the worker in its child.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "net/asio/asio_transport.h"
#include "observe/task_log.h"
#include "ps/block_table.h"
#include "ps/shard_server.h"
#include "wire_peer.h"

namespace dtrain::cmd {

// Over TCP; between tasks on one host through the socket; and by reference to memory.
enum DtrainLink : uint32_t { kTcp, kUnix, kHost, kDtrainLinks };

// A transport of one side, and how its loop is run for one measurement after the other.
class WireEnd : public net::Handler {
 public:
  Status make(net::AsioConfig config);
  uint16_t port() const { return transport_->port(); }

 protected:
  // Runs the loop until `over` is set; an error when the other side is lost or nothing ends it for a minute.
  Status run(bool& over);
  // Sends what tells the other side that this one has got all it wants, and waits until it is written.
  void say_over();
  void end_when_written(bool& over);

  void on_connected(net::Rank peer, uint64_t incarnation) override;
  void on_lost(net::Rank peer, const std::string& reason) override;
  void on_refused(net::Rank by, const wire::Refuse& refuse) override;
  void on_unreachable(net::Rank peer, const std::string& reason) override;

  observe::TaskLog log_{stderr, "", LogLevel::kWarning};
  std::unique_ptr<net::AsioTransport> transport_;
  bool connected_ = false, over_ = false;

 private:
  std::string lost_;
  uint64_t runs_ = 0;
};

// `count` tensors of `bytes` each, as parameters of one server.
ps::BlockTable wire_table(size_t bytes, size_t count);

class WireServer final : public WireEnd, public wire::Outbox, public ps::SnapshotSink {
 public:
  // Connects the child's worker to it.
  Status connect(PeerChannel& child, DtrainLink link);
  // The table that follows; the child is told by who owns both ends.
  void serve(const ps::BlockTable& table, const optim::Optimizer& optimizer);

  // Seconds in which the worker's node [1, 2) of every block is offered, taken, carried here and added to [0, 1), which
  // is here already.
  Result<double> push();
  // Seconds in which the worker gets a version of every block into its memory.
  Result<double> pull();
  // Round trips of a control message of 64 bytes.
  Result<std::vector<double>> bounce(size_t count);
  // Completes the last push to a whole step, and checks what became of the values. An error (kBug) where they are not
  // what was pushed.
  Status check();

 private:
  static constexpr uint32_t kMicroBatches = 4;

  void on_message(net::Rank from, const wire::Message& message, ByteSpan payload) override;
  void send(wire::Rank to, wire::Message message, wire::Payload payload) override;
  void snapshot(const wire::Snapshot&, ps::ShardState) override {}
  Status add_own(const ps::Node& node);

  PeerChannel* child_ = nullptr;
  uint32_t link_ = 0;
  std::shared_ptr<SharedMemory> memory_ = SharedMemory::create().value_or(nullptr);
  const ps::BlockTable* table_ = nullptr;
  const optim::Optimizer* optimizer_ = nullptr;
  std::unique_ptr<ps::ShardServer> server_;
  Buffer ones_;
  Status status_;
  size_t expected_ = 0;  // chunks
  Instant end_ = 0;
  size_t bounces_ = 0;
  std::vector<Instant> bounced_;
};

class WireWorker final : public WireEnd {
 public:
  Status connect(uint16_t port, DtrainLink link, std::shared_ptr<SharedMemory> memory);
  // `values` and `gradients` hold the table's elements, one block behind the other.
  void work(const ps::BlockTable& table, float* values, const float* gradients);

  Status push();
  Status pull();
  Status bounce();

 private:
  void on_message(net::Rank from, const wire::Message& message, ByteSpan payload) override;
  void send_chunks(const wire::Take& take);

  const ps::BlockTable* table_ = nullptr;
  std::vector<size_t> first_;  // element of each block
  float* values_ = nullptr;
  const float* gradients_ = nullptr;
  size_t left_ = 0;
};

// The child's half: obeys the orders that are about this.
class WireExchangeChild {
 public:
  Status obey(PeerChannel& parent, const Order& order);

 private:
  std::unique_ptr<WireWorker> workers_[kDtrainLinks];
  std::unique_ptr<ps::BlockTable> table_;
  std::shared_ptr<SharedMemory> memory_ = SharedMemory::create().value_or(nullptr);
  Buffer values_, gradients_;
};

}  // namespace dtrain::cmd
