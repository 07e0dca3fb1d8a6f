// Gives a shard server the values that its blocks begin with: drawn from the seed, read from a model file, or with all
// optimizer state from a checkpoint, however many servers wrote that. Step by step, so that the thread that loads can
// give signs of life in between. One thread.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/file_system.h"
#include "base/result.h"
#include "checkpoint/logical_reader.h"
#include "checkpoint/safetensors.h"
#include "node/row_source.h"
#include "node/run_definition.h"
#include "ps/block_table.h"
#include "ps/shard_server.h"

namespace dtrain::node {

struct InitialState {
  std::string checkpoint;  // folder; wins over the others
  std::string model;       // file; empty: drawn
};

class ShardLoader {
 public:
  // All that is referred to outlives the loader.
  static Result<std::unique_ptr<ShardLoader>> open(const RunDefinition& run, const ps::BlockTable& table,
                                                   uint32_t server, const InitialState& from, const FileSystem& files);

  // Loads the next blocks, some 16 MiB of parameters, and then rows of sparse tables. Whether something is left.
  Result<bool> load_some(ps::ShardServer& shard);

 private:
  ShardLoader(const RunDefinition& run, const ps::BlockTable& table, uint32_t server)
      : run_(run), table_(table), server_(server), blocks_(table.of_server(server)) {}
  Status load(uint32_t id, ps::ShardServer& shard) const;
  Status load_from_checkpoint(uint32_t id, ps::ShardServer& shard) const;
  Status load_from_model(uint32_t id, ps::ShardServer& shard) const;

  const RunDefinition& run_;
  const ps::BlockTable& table_;
  const uint32_t server_;
  const std::vector<uint32_t>& blocks_;  // ids
  size_t next_ = 0;                      // index into blocks_
  std::optional<checkpoint::LogicalReader> checkpoint_;
  std::optional<checkpoint::SafetensorsReader> model_;
  // Of what is read rows from; without, none are kept yet.
  std::unique_ptr<RowSource> row_source_;
  std::optional<RowLoading> rows_;
};

}  // namespace dtrain::node
