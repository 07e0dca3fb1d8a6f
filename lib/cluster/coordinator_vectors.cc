// How the coordinator leads an optimizer that looks at all parameters at once (L-BFGS): a version of the protocol is a
// point that is tried, a step of the run an iterate. Between two orders the servers stand; each evaluation is assigned
// by itself.
#include <algorithm>
#include <cmath>

#include "cluster/coordinator.h"

namespace dtrain::cluster {

void Coordinator::start_vectors() {
  if (!vectors_begun_) {
    vectors_begun_ = true;
    send_order(lbfgs_->order());
    assign();
  } else if (next_order_) {  // where it was left for the boundary
    send_order(*std::exchange(next_order_, std::nullopt));
  }
}

void Coordinator::send_order(const optim::VectorOrder& order) {
  wire::VectorOrder m{.step = step_, .round = orders_++};
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
  dots_.begin(order.dots.size());
  committing_ = order.commit;
  if (committing_) rated_ = step_ + 1;
  send_to_servers(m);
}

Status Coordinator::on(wire::Rank from, const wire::VectorDots& m) {
  const Task& task = tasks_[from];
  if (!lbfgs_ || !task.info.serves) return broken(from, "dot products that nobody asked for");
  if (phase_ != Phase::kTraining || m.step != step_ + (committing_ ? 1 : 0) || m.round != (committing_ ? 0 : orders_) ||
      !dots_.add(task.server, m))
    return {};
  progressed();
  advance();
  return {};
}

void Coordinator::advance_vectors() {
  if (phase_ != Phase::kTraining) return;
  if (committing_) {
    for (const wire::Rank rank : servers_)
      if (tasks_[rank].committed <= step_) return;
    committing_ = false;
    orders_ = 0;
    metrics_.erase(step_);
    ++step_;
    if (options_.speculate) {
      stragglers_.closed(shares_);
      stragglers_.opened(step_, now_);
    }
    if (at_boundary_) {
      at_boundary_ = false;
      phase_ = Phase::kBoundary;
      return proceed();
    }
    if (interrupted_ && lbfgs_->begun()) return shorten_vectors();
    until_ = step_ + 1;
    assign();
  }
  const auto metrics = metrics_.find(step_);
  if (!dots_.complete() || metrics == metrics_.end() || metrics->second.root() == nullptr) return;
  const Metrics root = *metrics->second.root();
  const bool first = !lbfgs_->begun();
  const std::vector<double> dots = dots_.sums();
  if (first && orders_ == 1 && !(std::isfinite(root.mean_loss()) && std::isfinite(dots[0]))) {
    stop(ExitCode::kNotFinite,
         fmt::format("step {}: the loss is {}, the gradient's squares are {}", iteration_, root.mean_loss(), dots[0]));
    return;
  }
  using Progress = optim::Lbfgs::Progress;
  const Progress progress = lbfgs_->tell(root.mean_loss(), dots);
  measuring_ = progress == Progress::kMeasuring;
  if (measuring_ || progress == Progress::kSearching) return send_order(lbfgs_->order());
  iterated(progress, root, first);
}

// A new iterate, or the end.
void Coordinator::iterated(optim::Lbfgs::Progress progress, const Metrics& metrics, bool first) {
  using Progress = optim::Lbfgs::Progress;
  const bool over = progress == Progress::kConverged || progress == Progress::kStuck;
  const bool iterate = progress != Progress::kStuck;
  if (iterate && !first) ++iteration_;
  if (over) {
    steps_ = iteration_;
    log_.info("{} loss {:.6g} after {} steps", iterate ? "converged to" : "no better point can be found than",
              lbfgs_->value(), iteration_);
  }
  if (iterate && !first)
    events_.on_step({.step = iteration_ - 1,
                     .metrics = metrics,
                     .rate = lbfgs_->step(),
                     .norm = std::nullopt,
                     .last = iteration_ == steps_,
                     .staleness = std::nullopt});
  optim::VectorOrder order = lbfgs_->order();
  order.accept = iterate && !first;  // where it begins is no step
  if (over || iteration_ >= steps_ || interrupted_ || (!first && (snapshot_due(iteration_) || eval_due(iteration_)))) {
    at_boundary_ = true;
    if (!over) {  // the servers stand at the iterate, and go on from there when what is due is done
      optim::VectorOrder stand = optim::Lbfgs::back_to_iterate();
      stand.accept = order.accept;
      stand.drop_oldest = std::exchange(order.drop_oldest, false);
      const auto pairs = std::ranges::stable_partition(
          order.lines, [](const optim::VectorLine& line) { return line.to < optim::kFirstSlot; });
      stand.lines.insert(stand.lines.end(), pairs.begin(), pairs.end());
      order.lines.erase(pairs.begin(), pairs.end());
      order.accept = false;
      next_order_ = std::move(order);
      order = std::move(stand);
    }
  }
  send_order(order);
}

// The run ends at the last iterate, whatever is under way.
void Coordinator::shorten_vectors() {
  if (!lbfgs_->begun()) return stop(ExitCode::kInterrupted, fmt::format("interrupted before step {}", iteration_));
  // Where a point is being accepted, or another is on its way, that comes first: it is noticed there.
  if (committing_ || measuring_) return;
  at_boundary_ = true;
  send_order(optim::Lbfgs::back_to_iterate());
}

}  // namespace dtrain::cluster
