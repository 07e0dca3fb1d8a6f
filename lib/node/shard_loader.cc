#include "node/shard_loader.h"

#include <fmt/format.h>

#include "checkpoint/logical_reader.h"
#include "checkpoint/model_file.h"

namespace dtrain::node {
namespace {

using Values = std::vector<float>;

MutableByteSpan bytes_of(Values& values) { return std::as_writable_bytes(std::span(values)); }

Status load_checkpoint(const ps::BlockTable& table, uint32_t server, const std::string& folder,
                       const std::vector<std::string>& slot_names, const FileSystem& files, ps::ShardServer& shard) {
  DTRAIN_TRY_ASSIGN(const auto reader, checkpoint::LogicalReader::open(files, folder));
  for (uint32_t id : table.of_server(server)) {
    const ps::Block& block = table.block(id);
    const std::string& name = table.parameters()[static_cast<size_t>(block.parameter)].name;
    const size_t slots = block.kind == ParameterKind::kTrainable ? slot_names.size() : 0;
    std::vector<Values> read(1 + slots, Values(static_cast<size_t>(block.elements)));
    DTRAIN_TRY(reader.read(name, "", block.first, bytes_of(read[0])));
    for (size_t s = 0; s < slots; ++s) DTRAIN_TRY(reader.read(name, slot_names[s], block.first, bytes_of(read[1 + s])));
    const std::vector<std::span<const float>> spans(read.begin() + 1, read.end());
    shard.load(id, read[0], spans);
  }
  return {};
}

Status load_model(const ps::BlockTable& table, uint32_t server, const std::string& path, const FileSystem& files,
                  ps::ShardServer& shard) {
  DTRAIN_TRY_ASSIGN(const auto model, checkpoint::SafetensorsReader::open(files, path));
  for (uint32_t id : table.of_server(server)) {
    const ps::Block& block = table.block(id);
    const ParameterInfo& p = table.parameters()[static_cast<size_t>(block.parameter)];
    const checkpoint::TensorInfo* tensor = model.find(p.name);
    if (!tensor || tensor->dtype != DType::kF32 || tensor->shape != p.shape)
      return fail(ExitCode::kUsage,
                  fmt::format("{}: the network wants {} as F32 {}, but the file {}", path, p.name, to_string(p.shape),
                              tensor ? fmt::format("has {} {}", name_of(tensor->dtype), to_string(tensor->shape))
                                     : std::string("does not have it")));
    Values values(static_cast<size_t>(block.elements));
    DTRAIN_TRY(model.read(*tensor, static_cast<uint64_t>(block.first) * sizeof(float), bytes_of(values)));
    shard.load(id, values);
  }
  return {};
}

}  // namespace

Status load_shard(const RunDefinition& run, const ps::BlockTable& table, uint32_t server, const InitialState& from,
                  const FileSystem& files, ps::ShardServer& shard) {
  if (!from.checkpoint.empty())
    return load_checkpoint(table, server, from.checkpoint, run.optimizer.optimizer->slot_names(), files, shard);
  if (!from.model.empty()) return load_model(table, server, from.model, files, shard);
  for (uint32_t id : table.of_server(server)) {
    const ps::Block& block = table.block(id);
    Values values(static_cast<size_t>(block.elements));
    run.network->initialize(block.parameter, run.spec.seed, block.first, values);
    shard.load(id, values);
  }
  return {};
}

}  // namespace dtrain::node
