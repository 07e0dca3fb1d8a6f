#include "node/snapshot_writer.h"

#include <fmt/format.h>

#include "base/buffer_file_system.h"
#include "checkpoint/checkpoint_folder.h"

namespace dtrain::node {
namespace {

std::vector<checkpoint::ShardBlock> blocks_of(const ps::ShardState& state, const ps::BlockTable& table,
                                              const std::vector<std::string>& slot_names) {
  std::vector<checkpoint::ShardBlock> blocks;
  for (const ps::ShardState::BlockCopy& copy : state.blocks) {
    const ps::Block& block = table.block(copy.block);
    const auto bytes = static_cast<size_t>(block.elements) * sizeof(float);
    checkpoint::ShardBlock& out = blocks.emplace_back();
    out.parameter = table.parameters()[static_cast<size_t>(block.parameter)].name;
    out.first = block.first;
    out.value = ByteSpan(copy.values->data(), bytes);
    for (size_t s = 0; s < copy.slots.size(); ++s)
      out.slots.emplace_back(slot_names[s], ByteSpan(copy.slots[s].data(), bytes));
  }
  return blocks;
}

std::vector<checkpoint::ShardRows> rows_of(const std::vector<ps::TableRows>& all, const ps::BlockTable& table,
                                           const std::vector<std::string>& slot_names) {
  std::vector<checkpoint::ShardRows> tables;
  for (const ps::TableRows& rows : all) {
    const ParameterInfo& p = table.parameters()[static_cast<size_t>(rows.parameter)];
    checkpoint::ShardRows& out =
        tables.emplace_back(checkpoint::ShardRows{p.name, p.shape[1], rows.rows, rows.values, {}});
    for (size_t s = 0; s < rows.slots.size(); ++s) out.slots.emplace_back(slot_names[s], rows.slots[s]);
  }
  return tables;
}

}  // namespace

std::string disk_mark(const std::string& folder, uint64_t coordinator_incarnation) {
  return fmt::format("{}/.seen-{:016x}", folder, coordinator_incarnation);
}

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
  const int64_t version = state.version;
  add({order.folder, version, server_, coordinator_, std::move(state), ""});
}

void SnapshotWriter::put(const std::string& folder, int64_t version, uint32_t server, std::string bytes) {
  add({folder, version, server, 0, {}, std::move(bytes)});
}

void SnapshotWriter::add(Order order) {
  {
    std::lock_guard lock(mutex_);
    orders_.push_back(std::move(order));
  }
  changed_.notify_all();
}

std::vector<WrittenShard> SnapshotWriter::take_done() {
  std::lock_guard lock(mutex_);
  return std::exchange(done_, {});
}

void SnapshotWriter::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return closing_ || !orders_.empty(); });
    if (closing_) return;
    const Order order = std::move(orders_.front());
    orders_.pop_front();
    lock.unlock();
    WrittenShard done = perform(order);
    lock.lock();
    done_.push_back(std::move(done));
    lock.unlock();
    wake_();
    lock.lock();
  }
}

WrittenShard SnapshotWriter::perform(const Order& order) {
  WrittenShard out{order.server, {}, nullptr};
  out.done.version = order.version;
  if (const auto file = write(order, out.bytes)) {
    out.done.file = file->name;
    out.done.bytes = file->bytes;
    out.done.sha256 = file->sha256;
  } else {
    out.done.error = file.error().message;
  }
  return out;
}

Result<checkpoint::ManifestFile> SnapshotWriter::write(const Order& order, std::shared_ptr<const std::string>& bytes) {
  checkpoint::CheckpointFolder folder(files_, order.folder, log_);
  if (!order.bytes.empty())
    return folder.put_shard(order.version, order.server,
                            std::as_bytes(std::span(order.bytes.data(), order.bytes.size())));
  const auto blocks = blocks_of(order.state, table_, slot_names_);
  std::vector<ps::TableRows> sorted;
  for (const ps::KeptRows& kept : order.state.rows) sorted.push_back(kept.sorted());
  const auto rows = rows_of(sorted, table_, slot_names_);
  if (order.coordinator == 0 || files_.exists(disk_mark(order.folder, order.coordinator)).value_or(false))
    return folder.write_shard(order.version, order.server, blocks, rows);
  BufferFileSystem memory;
  const auto file = checkpoint::write_shard(memory, "shard", order.version, order.server, blocks, rows);
  if (file) bytes = memory.content("shard/" + file->name);
  return file;
}

}  // namespace dtrain::node
