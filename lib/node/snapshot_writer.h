// Writes shards to the run's checkpoint folder, on a thread of its own, while training goes on: those of this process's
// server, and at the coordinator those that servers on other disks have sent. A server that does not see the
// coordinator's disk (the mark that it made there) gets its shard as bytes instead, to send them.
//
// The calls belong to the loop thread; `wake` is called on the writer's thread after each shard.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/file_system.h"
#include "base/log.h"
#include "checkpoint/manifest.h"
#include "proto-free-wire/message.h"
#include "ps/shard_server.h"

namespace dtrain::node {

// The file in the checkpoint folder by which a server knows that it sees the coordinator's disk.
std::string disk_mark(const std::string& folder, uint64_t coordinator_incarnation);

struct WrittenShard {
  uint32_t server = 0;
  wire::SnapshotDone done;
  std::shared_ptr<const std::string> bytes;  // not null: not written, to be sent to the coordinator
};

class SnapshotWriter final : public ps::SnapshotSink {
 public:
  SnapshotWriter(const ps::BlockTable& table, uint32_t server, std::vector<std::string> slot_names, FileSystem& files,
                 Log& log, std::function<void()> wake);
  ~SnapshotWriter() override;  // waits for the file under way

  // The coordinator's incarnation, as its connection says; 0: it is this process, or shares the disk by other
  // knowledge.
  void set_coordinator(uint64_t incarnation) { coordinator_ = incarnation; }
  void snapshot(const wire::Snapshot& order, ps::ShardState state) override;
  // Writes the shard of another server, which came as bytes.
  void put(const std::string& folder, int64_t version, uint32_t server, std::string bytes);
  // What has been done since the last call.
  std::vector<WrittenShard> take_done();

 private:
  struct Order {
    std::string folder;
    int64_t version = 0;
    uint32_t server = 0;
    uint64_t coordinator = 0;
    ps::ShardState state;  // of this process's server,
    std::string bytes;     // or the file of another one
  };
  void add(Order order);
  void work();
  WrittenShard perform(const Order& order);
  Result<checkpoint::ManifestFile> write(const Order& order, std::shared_ptr<const std::string>& bytes);

  const ps::BlockTable& table_;
  const uint32_t server_;
  const std::vector<std::string> slot_names_;
  FileSystem& files_;
  Log& log_;
  const std::function<void()> wake_;
  uint64_t coordinator_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Order> orders_;
  std::vector<WrittenShard> done_;
  bool closing_ = false;
  std::thread thread_;  // last: starts when the rest is there
};

}  // namespace dtrain::node
