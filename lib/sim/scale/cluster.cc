#include "sim/scale/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "base/log.h"

namespace dtrain::sim::scale {
namespace {

class Run final : public cluster::CoordinatorEvents {
 public:
  explicit Run(const Model& model) : model_(model), world_(model) {
    for (uint32_t rank = 0; rank < model.hosts(); ++rank) {
      if (rank == 0) {
        hosts_.push_back(nullptr);
        continue;
      }
      hosts_.push_back(std::make_unique<Host>(world_, rank, nullptr));
    }
    outbox_.run = this;
    at_.reserve(static_cast<size_t>(model.warmup + model.steps));
    coordinator_ = std::make_unique<cluster::Coordinator>(options(), world_.table, outbox_, log_, *this, 0);
    hosts_[0] = std::make_unique<Host>(world_, 0, coordinator_.get());
  }

  Result<Outcome> outcome() {
    for (auto& host : hosts_) host->start();
    while (!end_ && !world_.events.empty()) {
      const Event e = world_.events.pop();
      world_.now = e.at;
      if (world_.now > kLongestSimulation)
        return fail(ExitCode::kUsage, fmt::format("the simulated run takes more than 36 years for {} steps; simulate "
                                                  "faster links and processors, or fewer steps",
                                                  model_.warmup + model_.steps));
      Host& host = *hosts_[e.host];
      switch (e.kind) {
        case Event::Kind::kArrive:
          host.arrive(e.data);
          break;
        case Event::Kind::kSend:
          host.write();
          break;
        case Event::Kind::kTurn:
          host.turn();
          break;
        case Event::Kind::kCompute:
          host.compute(e.data);
          break;
      }
    }
    if (!end_) return fail(ExitCode::kBug, fmt::format("the simulated run stands still at step {}", at_.size()));
    if (*end_ != ExitCode::kDone) return fail(*end_, "the simulated run ends: " + reason_);
    Outcome out;
    const auto first = static_cast<size_t>(model_.warmup - 1);
    for (size_t i = first + 1; i < at_.size(); ++i) out.steps.push_back(at_[i] - at_[i - 1]);
    out.step = (at_.back() - at_[first]) / static_cast<Nanoseconds>(out.steps.size());
    out.busy = utilisation(static_cast<double>(at_.back() - at_[first]));
    out.messages = world_.messages;
    for (const auto& host : hosts_)
      if (host->server()) out.largest_pool = std::max<uint64_t>(out.largest_pool, host->server()->sums().most_lent());
    return out;
  }

 private:
  // The coordinator sends as host 0.
  struct Outbox final : wire::Outbox {
    void send(wire::Rank to, wire::Message message, wire::Payload payload) override {
      run->hosts_[0]->send(to, std::move(message), std::move(payload));
    }
    Run* run = nullptr;
  };

  cluster::CoordinatorOptions options() const {
    cluster::CoordinatorOptions o;
    for (uint32_t rank = 0; rank < model_.hosts(); ++rank)
      o.tasks.push_back({fmt::format("task {}", rank), "", world_.computes(rank), world_.serves(rank)});
    o.steps = model_.warmup + model_.steps;
    o.micro_batches = world_.micro_batches;
    o.norms.rounds = world_.norms;
    if (model_.clips) o.norms.clip_norm = 1.0;
    if (model_.optimizer->norm_need() != optim::NormNeed::kNone)
      o.norms.ratio = [this](const ParameterInfo& p, double values, double other) {
        return model_.optimizer->ratio(p, values, other);
      };
    o.rule = model_.rule;
    o.rate = [](int64_t) { return 0.1; };
    return o;
  }

  void on_begin(int64_t, uint32_t) override {}
  void on_step(const cluster::StepReport&) override {
    at_.push_back(world_.now);
    if (model_.on_step) model_.on_step(static_cast<int64_t>(at_.size()));
    const bool first = at_.size() == static_cast<size_t>(model_.warmup);
    const bool last = at_.size() == static_cast<size_t>(model_.warmup + model_.steps);
    if (!first && !last) return;
    std::vector<HostTimes>& times = first ? before_ : after_;
    for (const auto& host : hosts_) times.push_back(host->times());
  }
  void on_eval(int64_t, const Metrics&) override {}
  Status on_snapshot_complete(int64_t, const std::vector<wire::SnapshotDone>&) override { return {}; }
  void on_snapshot_abandoned(int64_t, const std::string&) override {}
  void on_stopped(ExitCode code, const std::string& reason) override {
    end_ = code;
    reason_ = reason;
  }

  Utilisation utilisation(double time) const {
    Utilisation most;
    for (uint32_t rank = 0; rank < hosts_.size(); ++rank) {
      const HostTimes &a = before_[rank], &b = after_[rank];
      const auto share = [&](Nanoseconds HostTimes::*of) { return static_cast<double>(b.*of - a.*of) / time; };
      const auto raise = [&](double& to, Nanoseconds HostTimes::*of) { to = std::max(to, share(of)); };
      if (world_.computes(rank)) {
        most.compute += share(&HostTimes::compute) / model_.workers;
        raise(most.worker_in, &HostTimes::in);
        raise(most.worker_out, &HostTimes::out);
        raise(most.worker_loop, &HostTimes::loop);
      }
      if (world_.serves(rank)) {
        raise(most.server_in, &HostTimes::in);
        raise(most.server_out, &HostTimes::out);
        raise(most.server_loop, &HostTimes::loop);
        raise(most.sums, &HostTimes::sums);
      }
      if (rank == 0) most.coordinator = share(&HostTimes::coordinator);
    }
    return most;
  }

  const Model& model_;
  World world_;
  NullLog log_;
  Outbox outbox_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::unique_ptr<cluster::Coordinator> coordinator_;
  std::vector<Instant> at_;  // when each step was complete
  std::vector<HostTimes> before_, after_;
  std::optional<ExitCode> end_;
  std::string reason_;
};

}  // namespace

const char* bottleneck(const Utilisation& busy) {
  const std::pair<double, const char*> all[] = {
      {busy.compute, "compute"},          {busy.server_in, "server link in"},   {busy.server_out, "server link out"},
      {busy.worker_in, "worker link in"}, {busy.worker_out, "worker link out"}, {busy.server_loop, "server loop"},
      {busy.worker_loop, "worker loop"},  {busy.coordinator, "coordinator"},
  };
  const auto* most =
      std::max_element(std::begin(all), std::end(all), [](const auto& a, const auto& b) { return a.first < b.first; });
  return most->second;
}

Result<Outcome> simulate(const Model& model) {
  if (model.warmup < 1 || model.steps < 1)
    return fail(ExitCode::kBug, "a simulation needs a step to begin with and one to time");
  return Run(model).outcome();
}

}  // namespace dtrain::sim::scale
