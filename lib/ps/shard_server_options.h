// What a shard server is told of its run, and what it counts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "compress/method.h"
#include "consistency/admission_rule.h"
#include "proto-free-wire/message.h"
#include "ps/norm_rounds.h"
#include "ps/row_store.h"
#include "ps/shard_counters.h"
#include "tensor/shared_memory.h"

namespace dtrain::ps {

struct ShardServerOptions {
  uint32_t micro_batches = 1;  // K
  NormRounds norms;            // roots wait for the coordinator's answer to the last one
  size_t pool_bytes = 0;       // for partial sums of blocks that are offered; at least Admission::smallest_pool
  wire::Rank coordinator = 0;
  std::vector<float*> in_place;                                      // empty, or where each parameter's values lie
  std::shared_ptr<SharedMemory> memory = nullptr;                    // where versions lie; null: the heap
  std::shared_ptr<const consistency::AdmissionRule> rule = nullptr;  // null: synchronous
  // Bookkeeping without arithmetic: values are never read nor written, payloads count by their size. For simulations of
  // clusters whose tensors would fill no machine's memory.
  bool counts_only = false;
  // How a version is told to those who have the one before; null: its values are. Not in place, and only where workers
  // take version after version.
  std::shared_ptr<const compress::Method> pulls = nullptr;
  InitialValues initial_rows = {};         // where there are sparse tables
  uint64_t micro_batch_rows = UINT64_MAX;  // of all tables that a micro-batch can use at most
  bool vectors = false;                    // what moves the parameters are the coordinator's VectorOrders
};

}  // namespace dtrain::ps
