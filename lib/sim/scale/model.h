// What a simulated cluster is made of: its links, what its hosts' processors take for messages and bytes, how workers
// compute, where parameters lie. Values, all of them assumptions that a result has to be quoted with.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "consistency/admission_rule.h"
#include "optim/optimizer.h"
#include "ps/norm_rounds.h"
#include "tensor/parameter.h"

namespace dtrain::sim::scale {

// A simulation ends with an error where it would take longer than that. Nothing beyond it is told apart, so that no sum
// of times overflows.
constexpr Nanoseconds kLongestSimulation = int64_t{1} << 60;  // 36 years

inline Nanoseconds duration(double nanoseconds) {
  constexpr auto most = static_cast<double>(kLongestSimulation);
  return nanoseconds < most ? static_cast<Nanoseconds>(nanoseconds) : kLongestSimulation;
}

inline Instant later(Instant at, Nanoseconds by) { return at < kLongestSimulation ? at + by : at; }

// Every host has one link to a switch that never is the bottleneck itself. Both directions are independent.
struct Link {
  double bytes_per_second = 3.125e9;
  Nanoseconds latency = 50 * kMicrosecond;  // from host to host
  // TCP over Ethernet: of 1538 bytes on the wire (preamble, gap, headers, checksum) 1448 are the stream's.
  static constexpr double kOverhead = 1538.0 / 1448.0;
  static constexpr uint32_t kPacketBytes = 90;  // of the smallest packet beside its contents

  Nanoseconds time(uint64_t bytes) const {
    return duration((static_cast<double>(bytes) * kOverhead + kPacketBytes) / bytes_per_second * 1e9) + 1;
  }
};

// What the loop thread of a task takes, in nanoseconds, and per byte of tensors.
struct HostCosts {
  double message = 1500;  // to take a message and let a role act on it
  double write = 3000;    // a write to a socket
  double receive = 0.25;  // read from a socket, with the checksum
  double send = 0.25;     // written to one, with the checksum
  double add = 0.12;      // a node's chunk into a sum
  double update = 0.4;    // the optimizer, by byte of parameter
};

// One run of a worker's training program for one micro-batch: its ops in order, those between two that matter merged.
struct ComputePlan {
  struct Piece {  // of a parameter's output, whole blocks
    ParameterIndex parameter = 0;
    int64_t first = 0, elements = 0;
  };
  struct Op {
    std::vector<ParameterIndex> needs;  // before it
    Nanoseconds time = 0;
    bool metrics = false;      // after it: the loss is known
    std::vector<Piece> makes;  // after it
  };
  std::vector<Op> ops;

  Nanoseconds total() const {
    Nanoseconds sum = 0;
    for (const Op& op : ops) sum += op.time;
    return sum;
  }
};

struct Model {
  std::vector<ParameterInfo> parameters;
  std::shared_ptr<const optim::Optimizer> optimizer;
  std::shared_ptr<const consistency::AdmissionRule> rule;  // null: synchronous
  bool clips = false;                                      // by the norm of the gradient
  ComputePlan compute;
  uint32_t micro_batches = 1;                              // of a worker, a step
  size_t (*pool_bytes)(uint32_t micro_batches) = nullptr;  // of a server's sums

  uint32_t workers = 1;
  uint32_t ps = 0;  // tasks that only hold parameters, on hosts of their own; 0: every worker holds some
  Link link;
  HostCosts costs;
  // All tasks share the cores of one machine, as in a test; 0: each host has enough of its own.
  uint32_t shared_cores = 0;

  int64_t warmup = 2, steps = 3;              // steps that are simulated, and that are timed
  std::function<void(int64_t step)> on_step;  // called when one is complete; may be empty

  uint32_t servers() const { return ps > 0 ? ps : workers; }
  uint32_t hosts() const { return ps + workers; }
};

}  // namespace dtrain::sim::scale
