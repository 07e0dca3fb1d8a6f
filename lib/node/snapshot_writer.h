// Writes a shard server's snapshots to disk, on a thread of its own, while training goes on.
//
// snapshot() and take_done() belong to the loop thread; `wake` is called on the writer's thread after each file.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/file_system.h"
#include "base/log.h"
#include "proto-free-wire/message.h"
#include "ps/shard_server.h"

namespace dtrain::node {

class SnapshotWriter final : public ps::SnapshotSink {
 public:
  SnapshotWriter(const ps::BlockTable& table, uint32_t server, std::vector<std::string> slot_names, FileSystem& files,
                 Log& log, std::function<void()> wake);
  ~SnapshotWriter() override;  // waits for the file under way

  void snapshot(const wire::Snapshot& order, ps::ShardState state) override;
  // What has been written since the last call.
  std::vector<wire::SnapshotDone> take_done();
  bool busy() const;

 private:
  struct Order {
    std::string folder;
    ps::ShardState state;
  };
  void work();
  wire::SnapshotDone write(const Order& order);

  const ps::BlockTable& table_;
  const uint32_t server_;
  const std::vector<std::string> slot_names_;
  FileSystem& files_;
  Log& log_;
  const std::function<void()> wake_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Order> orders_;
  std::vector<wire::SnapshotDone> done_;
  bool writing_ = false, closing_ = false;
  std::thread thread_;  // last: starts when the rest is there
};

}  // namespace dtrain::node
