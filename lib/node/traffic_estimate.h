// What a training step moves between tasks, for each placement of the parameters: bytes that a task sends
// and receives, and how long its link needs for them. Known before anything is started. Values; no threads, no errors.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cluster/spec.h"
#include "compress/method.h"
#include "consistency/admission_rule.h"
#include "tensor/parameter.h"

namespace dtrain::node {

// A step, to and from other tasks: what stays in a process costs nothing. Tensors only; frames' headers and control are
// some hundred bytes for each 256 KiB.
struct Traffic {
  double sent = 0, received = 0;  // bytes

  bool operator==(const Traffic&) const = default;
};

// How many tasks there are.
struct TaskCounts {
  uint32_t ps = 0;
  uint32_t workers = 0;  // that may hold parameters
  uint32_t joiners = 0;  // further workers, that never do
};

struct PlacementTraffic {
  cluster::Placement placement = cluster::Placement::kWorkers;
  uint32_t servers = 0;
  std::vector<Traffic> ps, workers;  // by task; joiners come last among the workers
};

// How what moves travels. Frames' headers apart, no step moves more.
struct TravelForm {
  std::shared_ptr<const compress::Method> gradients, pulls;  // of trainable blocks; null: as they are
  // Of sparse tables, with all servers together, for one micro-batch: rows that are asked for and their gradients; the
  // rows that come.
  double rows_sent = 0, rows_received = 0;  // bytes
};

// Every worker pushes, for each node of its share of the K micro-batches (one, where the share is a node of the tree),
// the gradient or statistic of every block that is not frozen, and pulls every such block once, even if its share is
// empty. Other modes push each micro-batch by itself, do both only every few steps (then this is the mean over these),
// or as often as they say; there all workers are taken to be equally fast. Rows of sparse tables lie on all servers
// alike, and each micro-batch has its own. Of servers beside W workers and K = W each
// sends and receives 2 (W−1)/W times the parameters, as in a ring's all-reduce (Patarasuk and Yuan, 2009, section 3).
// REQUIRES that someone holds parameters in this placement.
PlacementTraffic estimate_traffic(const std::vector<ParameterInfo>& parameters, cluster::Placement placement,
                                  const TaskCounts& tasks, uint32_t micro_batches, const consistency::Mode& mode = {},
                                  const TravelForm& form = {});

// Bytes a second of one task's link, in both directions at once.
struct Bandwidths {
  double ps = 0, worker = 0;
};

// The link that is busy for longest.
struct Bottleneck {
  cluster::Role role = cluster::Role::kWorker;
  bool sends = true;   // else receives
  double seconds = 0;  // a step, at least
};
Bottleneck find_bottleneck(const PlacementTraffic& traffic, const Bandwidths& bandwidths);

// The most that a task of this kind sends, and the most that one receives.
Traffic largest(const std::vector<Traffic>& tasks);

}  // namespace dtrain::node
