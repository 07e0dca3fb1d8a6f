#include "node/traffic_estimate.h"

#include <algorithm>

#include "base/check.h"
#include "ps/block_table.h"
#include "ps/tree.h"

namespace dtrain::node {

namespace {

// How often a worker sends every gradient, and gets every parameter, in a step.
struct Rhythm {
  double pushes = 0, pulls = 0;
};

Rhythm rhythm(uint32_t worker, uint32_t workers, uint32_t micro_batches, const consistency::Mode& mode) {
  if (!mode.lockstep) {
    const double own = static_cast<double>(micro_batches) / workers;
    return {own / static_cast<double>(mode.push_every), own / static_cast<double>(mode.fetch_every)};
  }
  const ps::Node share = ps::share(worker, workers, micro_batches);
  const size_t nodes = mode.single ? share.size() : ps::maximal_nodes(share.first, share.last, micro_batches).size();
  const auto stride = static_cast<double>(mode.stride);
  return {static_cast<double>(nodes) / stride, 1 / stride};
}

}  // namespace

PlacementTraffic estimate_traffic(const std::vector<ParameterInfo>& parameters, cluster::Placement placement,
                                  const TaskCounts& tasks, uint32_t micro_batches, const consistency::Mode& mode) {
  PlacementTraffic out{placement, 0, std::vector<Traffic>(placement == cluster::Placement::kWorkers ? 0 : tasks.ps),
                       std::vector<Traffic>(tasks.workers + tasks.joiners)};
  const auto ps = static_cast<uint32_t>(out.ps.size()), workers = static_cast<uint32_t>(out.workers.size());
  out.servers = ps + (placement == cluster::Placement::kPs ? 0 : tasks.workers);
  DTRAIN_CHECK(out.servers > 0, "nobody holds parameters");

  // What moves of each server's blocks: the ps tasks come first, then the servers beside the first workers.
  const ps::BlockTable table(parameters, out.servers);
  std::vector<double> held(out.servers, 0.0);
  double all = 0;
  for (const ps::Block& block : table.blocks()) {
    if (block.frozen()) continue;
    const double bytes = static_cast<double>(block.elements) * sizeof(float);
    held[block.server] += bytes;
    all += bytes;
  }
  std::vector<Rhythm> rhythms;
  Rhythm sum;
  for (uint32_t w = 0; w < workers; ++w) {
    rhythms.push_back(rhythm(w, workers, micro_batches, mode));
    sum.pushes += rhythms.back().pushes;
    sum.pulls += rhythms.back().pulls;
  }

  for (uint32_t s = 0; s < ps; ++s) out.ps[s] = {.sent = sum.pulls * held[s], .received = sum.pushes * held[s]};
  for (uint32_t w = 0; w < workers; ++w) {
    const double own = ps + w < out.servers ? held[ps + w] : 0.0;
    const Rhythm& r = rhythms[w];
    out.workers[w] = {.sent = r.pushes * (all - own) + (sum.pulls - r.pulls) * own,
                      .received = r.pulls * (all - own) + (sum.pushes - r.pushes) * own};
  }
  return out;
}

Traffic largest(const std::vector<Traffic>& tasks) {
  Traffic most;
  for (const Traffic& task : tasks) {
    most.sent = std::max(most.sent, task.sent);
    most.received = std::max(most.received, task.received);
  }
  return most;
}

Bottleneck find_bottleneck(const PlacementTraffic& traffic, const Bandwidths& bandwidths) {
  const Traffic ps = largest(traffic.ps), worker = largest(traffic.workers);
  Bottleneck slowest{cluster::Role::kWorker, true, worker.sent / bandwidths.worker};
  const auto look = [&](cluster::Role role, bool sends, double seconds) {
    if (seconds > slowest.seconds) slowest = {role, sends, seconds};
  };
  look(cluster::Role::kWorker, false, worker.received / bandwidths.worker);
  if (!traffic.ps.empty()) {
    look(cluster::Role::kPs, true, ps.sent / bandwidths.ps);
    look(cluster::Role::kPs, false, ps.received / bandwidths.ps);
  }
  return slowest;
}

}  // namespace dtrain::node
