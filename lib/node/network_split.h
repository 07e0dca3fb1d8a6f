// How the layers of a run's network lie on the workers of its cluster, as their keys `device` say.
#pragma once

#include <memory>

#include "cluster/spec.h"
#include "graph/executable.h"
#include "graph/split.h"
#include "node/run_definition.h"
#include "proto-free-wire/message.h"
#include "worker/stage_exchange.h"

namespace dtrain::node {

struct NetworkSplit {
  graph::Split split;             // its tasks are the workers, in the order of the spec
  std::vector<wire::Rank> ranks;  // of these

  // REQUIRES a worker.
  int task_of(wire::Rank rank) const;
};

// Whether any layer says where it is to be computed.
bool names_tasks(const graph::Network& network);

// Null where no layer does, or there is one worker only. Errors, all with their places: a task that does not exist or
// computes nothing, a worker without a layer, a mode of training in which a network cannot be split.
Result<std::shared_ptr<const NetworkSplit>> read_split(const RunDefinition& run, const cluster::ClusterSpec& spec);

// How many micro-batches a stage has under way, each with an arena of its own; one where it computes them in one go.
uint32_t stage_lanes(const graph::Executable& train, const NetworkSplit& split, int task, uint32_t micro_batches);

// What crosses the cuts of a program of one stage.
worker::StageLinks links_of(const graph::Stage& stage, const NetworkSplit& split, uint32_t micro_batches);

}  // namespace dtrain::node
