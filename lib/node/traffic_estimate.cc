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

// Of a block's elements, chunk by chunk.
double bytes_of(const ps::Block& block, const compress::Method* method) {
  if (!method || block.kind != ParameterKind::kTrainable) return static_cast<double>(block.elements) * sizeof(float);
  double bytes = 0;
  for (uint32_t chunk = 0; chunk < block.chunks(); ++chunk)
    bytes += static_cast<double>(method->lasting_bytes(static_cast<size_t>(block.chunk_elements(chunk))));
  return bytes;
}

// What one push, or one pull, of all blocks moves: for each server, and in all.
struct Moved {
  explicit Moved(uint32_t servers) : held(servers, 0.0) {}
  void add(const ps::Block& block, const compress::Method* method) {
    const double bytes = bytes_of(block, method);
    held[block.server] += bytes;
    all += bytes;
  }
  std::vector<double> held;
  double all = 0;
};

}  // namespace

PlacementTraffic estimate_traffic(const std::vector<ParameterInfo>& parameters, cluster::Placement placement,
                                  const TaskCounts& tasks, uint32_t micro_batches, const consistency::Mode& mode,
                                  const TravelForm& form) {
  PlacementTraffic out{placement, 0, std::vector<Traffic>(placement == cluster::Placement::kWorkers ? 0 : tasks.ps),
                       std::vector<Traffic>(tasks.workers + tasks.joiners)};
  const auto ps = static_cast<uint32_t>(out.ps.size()), workers = static_cast<uint32_t>(out.workers.size());
  out.servers = ps + (placement == cluster::Placement::kPs ? 0 : tasks.workers);
  DTRAIN_CHECK(out.servers > 0, "nobody holds parameters");

  // What moves of each server's blocks: the ps tasks come first, then the servers beside the first workers.
  const ps::BlockTable table(parameters, out.servers);
  Moved pushed(out.servers), pulled(out.servers);
  for (const ps::Block& block : table.blocks()) {
    if (block.frozen()) continue;
    pushed.add(block, form.gradients.get());
    pulled.add(block, form.pulls.get());
  }
  std::vector<Rhythm> rhythms;
  Rhythm sum;
  for (uint32_t w = 0; w < workers; ++w) {
    rhythms.push_back(rhythm(w, workers, micro_batches, mode));
    sum.pushes += rhythms.back().pushes;
    sum.pulls += rhythms.back().pulls;
  }

  // Of rows, what one server has of a micro-batch.
  const double rows_in = form.rows_sent / out.servers, rows_out = form.rows_received / out.servers;
  for (uint32_t s = 0; s < ps; ++s)
    out.ps[s] = {.sent = sum.pulls * pulled.held[s] + micro_batches * rows_out,
                 .received = sum.pushes * pushed.held[s] + micro_batches * rows_in};
  for (uint32_t w = 0; w < workers; ++w) {
    const bool serves = ps + w < out.servers;
    const double own_push = serves ? pushed.held[ps + w] : 0.0, own_pull = serves ? pulled.held[ps + w] : 0.0;
    const Rhythm& r = rhythms[w];
    const double own = ps::share(w, workers, micro_batches).size(), others = serves ? micro_batches - own : 0.0;
    const double elsewhere = out.servers - (serves ? 1.0 : 0.0);
    out.workers[w] = {.sent = r.pushes * (pushed.all - own_push) + (sum.pulls - r.pulls) * own_pull +
                              own * elsewhere * rows_in + others * rows_out,
                      .received = r.pulls * (pulled.all - own_pull) + (sum.pushes - r.pushes) * own_push +
                                  own * elsewhere * rows_out + others * rows_in};
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
