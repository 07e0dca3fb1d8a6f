// Gives a shard server the values that its blocks begin with: drawn from the seed, read from a model file, or with all
// optimizer state from a checkpoint, however many servers wrote that.
#pragma once

#include <string>

#include "base/file_system.h"
#include "base/result.h"
#include "node/run_definition.h"
#include "ps/block_table.h"
#include "ps/shard_server.h"

namespace dtrain::node {

struct InitialState {
  std::string checkpoint;  // folder; wins over the others
  std::string model;       // file; empty: drawn
};

Status load_shard(const RunDefinition& run, const ps::BlockTable& table, uint32_t server, const InitialState& from,
                  const FileSystem& files, ps::ShardServer& shard);

}  // namespace dtrain::node
