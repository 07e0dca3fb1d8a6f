// What a coordinator is told of the run that it leads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "cluster/norm_sum.h"
#include "consistency/admission_rule.h"
#include "optim/lbfgs.h"

namespace dtrain::cluster {

// A task as the cluster spec names it.
struct TaskInfo {
  std::string name;     // "/job:worker/task:0"
  std::string address;  // "192.168.170.193:2500", or what stands for it
  bool computes = false, serves = false;
  bool optional = false;  // may join or not: nobody waits for it. It does not serve
};

struct CoordinatorOptions {
  std::vector<TaskInfo> tasks;  // by rank; those that serve are the block table's servers, in this order
  int64_t first_step = 0, steps = 0;
  std::string checkpoint;  // that first_step is loaded from; empty: initial values
  uint32_t micro_batches = 1;
  uint32_t eval_micro_batches = 0;               // 0: no evaluations
  int64_t eval_every = 0;                        // 0: only at the end
  std::function<bool(int64_t version)> eval_at;  // evaluates there, too (ends of epochs); may be empty
  int64_t checkpoint_every = 0;                  // 0: only at the end
  std::string checkpoint_folder;                 // empty: nothing is ever written
  NormRules norms;
  uint32_t threads = 0;  // for one micro-batch; 0: the fewest that any worker offers
  // So many workers must be there, or the run waits. 0: at the start all that are not optional, then one.
  uint32_t min_workers = 0;
  Nanoseconds start_grace = 10 * kSecond;  // from when min_workers are there until the run begins without the others
  Nanoseconds start_timeout = 60 * kSecond, peer_timeout = 10 * kSecond, idle_timeout = 3600 * kSecond;
  std::function<double(int64_t step)> rate;                   // of the servers' optimizer
  std::function<double(int64_t step)> worker_rate = nullptr;  // of steps that workers take by themselves; may be empty
  std::shared_ptr<const consistency::AdmissionRule> rule = nullptr;  // null: synchronous
  bool split = false;      // every worker computes a part of the network, for all micro-batches: all are needed
  bool speculate = false;  // idle workers compute the share of one that is late
  std::optional<optim::LbfgsOptions> lbfgs = std::nullopt;  // the optimizer, where it is that
};

}  // namespace dtrain::cluster
