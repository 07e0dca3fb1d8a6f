// How the coordinator leads an optimizer that looks at all parameters at once (L-BFGS): a version of the protocol is a
// point that is tried, a step of the run an iterate. Between two orders the servers stand; each evaluation is assigned
// by itself.
#include <algorithm>
#include <cmath>

#include "cluster/coordinator.h"

namespace dtrain::cluster {

using Stage = FullBatch::Stage;

void Coordinator::start_vectors() {
  FullBatch& f = *full_batch_;
  if (f.stage == Stage::kNotBegun) {
    send_order(f.lbfgs.order(), Stage::kEvaluating);
    assign();
  } else if (f.after_boundary) {
    send_order(*std::exchange(f.after_boundary, std::nullopt), Stage::kCommitting);
  }
}

void Coordinator::send_order(const optim::VectorOrder& order, Stage stage) {
  FullBatch& f = *full_batch_;
  f.stage = stage;
  wire::VectorOrder m{.step = step_, .round = f.orders++};
  m.drop_oldest = order.drop_oldest;
  m.commit = order.commit;
  m.accept = order.accept;
  for (const optim::VectorLine& line : order.lines) {
    m.to.push_back(line.to);
    m.terms.push_back(static_cast<uint32_t>(line.terms.size()));
    for (const auto& [factor, vector] : line.terms) {
      m.vectors.push_back(vector);
      m.factors.push_back(factor);
    }
  }
  for (const auto& [left, right] : order.dots) {
    m.left.push_back(left);
    m.right.push_back(right);
  }
  f.dots.begin(order.dots.size());
  if (order.commit) rated_ = step_ + 1;
  send_to_servers(m);
}

Status Coordinator::on(wire::Rank from, const wire::VectorDots& m) {
  const Task& task = tasks_[from];
  if (!full_batch_ || !task.info.serves) return broken(from, "dot products that nobody asked for");
  FullBatch& f = *full_batch_;
  const bool next = f.stage == Stage::kCommitting;  // a server may be there already
  if (phase_ != Phase::kTraining || m.step != step_ + (next ? 1 : 0) || m.round != (next ? 0 : f.orders) ||
      !f.dots.add(task.server, m))
    return {};
  progressed();
  advance();
  return {};
}

void Coordinator::advance_vectors() {
  if (phase_ != Phase::kTraining) return;
  FullBatch& f = *full_batch_;
  if (f.stage == Stage::kCommitting) {
    for (const wire::Rank rank : servers_)
      if (tasks_[rank].committed <= step_) return;
    f.stage = Stage::kEvaluating;
    f.orders = 0;
    metrics_.erase(step_);
    ++step_;
    if (options_.speculate) {
      stragglers_.closed(shares_);
      stragglers_.opened(step_, now_);
    }
    if (std::exchange(f.to_boundary, false)) {
      phase_ = Phase::kBoundary;
      return proceed();
    }
    if (interrupted_ && f.lbfgs.begun()) return shorten_vectors();
    until_ = step_ + 1;
    assign();
  }
  const auto metrics = metrics_.find(step_);
  if (!f.dots.complete() || metrics == metrics_.end() || metrics->second.root() == nullptr) return;
  const Metrics root = *metrics->second.root();
  const bool first = !f.lbfgs.begun();
  const std::vector<double> dots = f.dots.sums();
  if (first && f.stage == Stage::kEvaluating && !(std::isfinite(root.mean_loss()) && std::isfinite(dots[0]))) {
    stop(ExitCode::kNotFinite,
         fmt::format("step {}: the loss is {}, the gradient's squares are {}", f.iteration, root.mean_loss(), dots[0]));
    return;
  }
  using Progress = optim::Lbfgs::Progress;
  const Progress progress = f.lbfgs.tell(root.mean_loss(), dots);
  if (progress == Progress::kMeasuring) return send_order(f.lbfgs.order(), Stage::kMeasuring);
  if (progress == Progress::kSearching) return send_order(f.lbfgs.order(), Stage::kCommitting);
  iterated(progress, root, first);
}

// A new iterate, or the end.
void Coordinator::iterated(optim::Lbfgs::Progress progress, const Metrics& metrics, bool first) {
  using Progress = optim::Lbfgs::Progress;
  FullBatch& f = *full_batch_;
  const bool over = progress == Progress::kConverged || progress == Progress::kStuck;
  const bool iterate = progress != Progress::kStuck;
  if (iterate && !first) ++f.iteration;
  if (over) {
    steps_ = f.iteration;
    log_.info("{} loss {:.6g} after {} steps", iterate ? "converged to" : "no better point can be found than",
              f.lbfgs.value(), f.iteration);
  }
  if (iterate && !first)
    events_.on_step({.step = f.iteration - 1,
                     .metrics = metrics,
                     .rate = f.lbfgs.step(),
                     .norm = std::nullopt,
                     .last = f.iteration == steps_,
                     .staleness = std::nullopt});
  optim::VectorOrder order = f.lbfgs.order();
  order.accept = iterate && !first;  // where it begins is no step
  if (over || f.iteration >= steps_ || interrupted_ ||
      (!first && (snapshot_due(f.iteration) || eval_due(f.iteration)))) {
    f.to_boundary = true;
    if (!over) {  // the servers stand at the iterate, and go on from there when what is due is done
      optim::VectorOrder stand = optim::Lbfgs::back_to_iterate();
      stand.accept = order.accept;
      stand.drop_oldest = std::exchange(order.drop_oldest, false);
      const auto pairs = std::ranges::stable_partition(
          order.lines, [](const optim::VectorLine& line) { return line.to < optim::kFirstSlot; });
      stand.lines.insert(stand.lines.end(), pairs.begin(), pairs.end());
      order.lines.erase(pairs.begin(), pairs.end());
      order.accept = false;
      f.after_boundary = std::move(order);
      order = std::move(stand);
    }
  }
  send_order(order, Stage::kCommitting);
}

// The run ends at the last iterate, whatever is under way.
void Coordinator::shorten_vectors() {
  FullBatch& f = *full_batch_;
  if (!f.lbfgs.begun()) return stop(ExitCode::kInterrupted, fmt::format("interrupted before step {}", f.iteration));
  // Where a point is being accepted, or another is on its way, that comes first: it is noticed there.
  if (f.stage != Stage::kEvaluating) return;
  f.to_boundary = true;
  send_order(optim::Lbfgs::back_to_iterate(), Stage::kCommitting);
}

}  // namespace dtrain::cluster
