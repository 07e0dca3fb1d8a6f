#include "node/snapshot_writer.h"

#include "checkpoint/checkpoint_folder.h"

namespace dtrain::node {

SnapshotWriter::SnapshotWriter(const ps::BlockTable& table, uint32_t server, std::vector<std::string> slot_names,
                               FileSystem& files, Log& log, std::function<void()> wake)
    : table_(table),
      server_(server),
      slot_names_(std::move(slot_names)),
      files_(files),
      log_(log),
      wake_(std::move(wake)),
      thread_([this] { work(); }) {}

SnapshotWriter::~SnapshotWriter() {
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void SnapshotWriter::snapshot(const wire::Snapshot& order, ps::ShardState state) {
  {
    std::lock_guard lock(mutex_);
    orders_.push_back({order.folder, std::move(state)});
  }
  changed_.notify_all();
}

std::vector<wire::SnapshotDone> SnapshotWriter::take_done() {
  std::lock_guard lock(mutex_);
  return std::exchange(done_, {});
}

bool SnapshotWriter::busy() const {
  std::lock_guard lock(mutex_);
  return writing_ || !orders_.empty() || !done_.empty();
}

void SnapshotWriter::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return closing_ || !orders_.empty(); });
    if (closing_) return;
    const Order order = std::move(orders_.front());
    orders_.erase(orders_.begin());
    writing_ = true;
    lock.unlock();
    wire::SnapshotDone done = write(order);
    lock.lock();
    writing_ = false;
    done_.push_back(std::move(done));
    lock.unlock();
    wake_();
    lock.lock();
  }
}

wire::SnapshotDone SnapshotWriter::write(const Order& order) {
  std::vector<checkpoint::ShardBlock> blocks;
  for (const ps::ShardState::BlockCopy& copy : order.state.blocks) {
    const ps::Block& block = table_.block(copy.block);
    const auto bytes = static_cast<size_t>(block.elements) * sizeof(float);
    checkpoint::ShardBlock out{table_.parameters()[static_cast<size_t>(block.parameter)].name,
                               block.first,
                               DType::kF32,
                               ByteSpan(copy.values->data(), bytes),
                               {}};
    for (size_t s = 0; s < copy.slots.size(); ++s)
      out.slots.emplace_back(slot_names_[s], ByteSpan(copy.slots[s].data(), bytes));
    blocks.push_back(std::move(out));
  }
  wire::SnapshotDone done;
  done.version = order.state.version;
  checkpoint::CheckpointFolder folder(files_, order.folder, log_);
  if (auto file = folder.write_shard(done.version, server_, blocks)) {
    done.file = file->name;
    done.bytes = file->bytes;
    done.sha256 = file->sha256;
  } else {
    done.error = file.error().message;
  }
  return done;
}

}  // namespace dtrain::node
