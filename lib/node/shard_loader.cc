#include "node/shard_loader.h"

#include <fmt/format.h>

namespace dtrain::node {
namespace {

constexpr size_t kBlocksAtOnce = 16;

using Values = std::vector<float>;

MutableByteSpan bytes_of(Values& values) { return std::as_writable_bytes(std::span(values)); }

}  // namespace

Result<std::unique_ptr<ShardLoader>> ShardLoader::open(const RunDefinition& run, const ps::BlockTable& table,
                                                       uint32_t server, const InitialState& from,
                                                       const FileSystem& files) {
  std::unique_ptr<ShardLoader> loader(new ShardLoader(run, table, server));
  if (!from.checkpoint.empty()) {
    DTRAIN_TRY_ASSIGN(loader->checkpoint_, checkpoint::LogicalReader::open(files, from.checkpoint));
  } else if (!from.model.empty()) {
    DTRAIN_TRY_ASSIGN(loader->model_, checkpoint::SafetensorsReader::open(files, from.model));
  }
  if (loader->checkpoint_) loader->row_source_ = RowSource::of(*loader->checkpoint_);
  if (loader->model_) loader->row_source_ = RowSource::of(*loader->model_);
  if (loader->row_source_) {
    std::vector<std::string> slots;
    if (loader->checkpoint_) slots = run.optimizer.optimizer->slot_names();
    loader->rows_.emplace(table.rows(), table.parameters(), *loader->row_source_, std::move(slots));
  }
  return loader;
}

Result<bool> ShardLoader::load_some(ps::ShardServer& shard) {
  if (next_ == blocks_.size() && rows_)
    return rows_->load_some(
        [&](uint64_t row, std::span<const float> values, std::span<const std::span<const float>> slots) {
          if (table_.rows().server_of(row) == server_) shard.rows()->load(row, values, slots);
        });
  for (size_t n = 0; n < kBlocksAtOnce && next_ < blocks_.size(); ++n) DTRAIN_TRY(load(blocks_[next_++], shard));
  return next_ < blocks_.size() || (rows_ && !table_.rows().empty());
}

Status ShardLoader::load(uint32_t id, ps::ShardServer& shard) const {
  if (checkpoint_) return load_from_checkpoint(id, shard);
  if (model_) return load_from_model(id, shard);
  const ps::Block& block = table_.block(id);
  Values values(static_cast<size_t>(block.elements));
  run_.network->initialize(block.parameter, run_.spec.seed, block.first, values);
  shard.load(id, values);
  return {};
}

Status ShardLoader::load_from_checkpoint(uint32_t id, ps::ShardServer& shard) const {
  const ps::Block& block = table_.block(id);
  const std::string& name = table_.parameters()[static_cast<size_t>(block.parameter)].name;
  const std::vector<std::string> slot_names = run_.optimizer.optimizer->slot_names();
  const size_t slots = block.kind == ParameterKind::kTrainable ? slot_names.size() : 0;
  std::vector<Values> read(1 + slots, Values(static_cast<size_t>(block.elements)));
  DTRAIN_TRY(checkpoint_->read(name, "", block.first, bytes_of(read[0])));
  for (size_t s = 0; s < slots; ++s)
    DTRAIN_TRY(checkpoint_->read(name, slot_names[s], block.first, bytes_of(read[1 + s])));
  const std::vector<std::span<const float>> spans(read.begin() + 1, read.end());
  shard.load(id, read[0], spans);
  return {};
}

Status ShardLoader::load_from_model(uint32_t id, ps::ShardServer& shard) const {
  const ps::Block& block = table_.block(id);
  const ParameterInfo& p = table_.parameters()[static_cast<size_t>(block.parameter)];
  const checkpoint::TensorInfo* tensor = model_->find(p.name);
  if (!tensor || tensor->dtype != DType::kF32 || tensor->shape != p.shape)
    return fail(
        ExitCode::kUsage,
        fmt::format("{}: the network wants {} as F32 {}, but the file {}", model_->path(), p.name, to_string(p.shape),
                    tensor ? fmt::format("has {} {}", name_of(tensor->dtype), to_string(tensor->shape))
                           : std::string("does not have it")));
  Values values(static_cast<size_t>(block.elements));
  DTRAIN_TRY(model_->read(*tensor, static_cast<uint64_t>(block.first) * sizeof(float), bytes_of(values)));
  shard.load(id, values);
  return {};
}

}  // namespace dtrain::node
