#include "sim/simulation.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <set>

#include "sim/sim_task.h"
#include "sim/truth.h"

namespace dtrain::sim {
namespace {

constexpr Nanoseconds kTick = 100 * kMillisecond;

// Equal to the bit, or as far as the tolerance goes.
bool same(std::span<const float> a, std::span<const float> b, double tolerance) {
  if (a.size() != b.size()) return false;
  if (tolerance == 0) return std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
  for (size_t i = 0; i < a.size(); ++i)
    if (!(std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])) <= tolerance)) return false;
  return true;
}

bool same(const Metrics& a, Metrics b, double tolerance) {
  if (tolerance > 0 && std::abs(a.loss - b.loss) <= tolerance * a.samples) b.loss = a.loss;
  return a == b;
}

bool same(const std::optional<double>& a, const std::optional<double>& b, double tolerance) {
  return a == b || (tolerance > 0 && a && b && std::abs(*a - *b) <= tolerance);
}

class LastLines final : public Log {
 public:
  void write(LogLevel, std::string_view message) override {
    lines_.emplace_back(message);
    stragglers_ += message.find(" is slow at step ") != std::string_view::npos;
    if (lines_.size() > 4) lines_.erase(lines_.begin());
  }
  uint64_t stragglers() const { return stragglers_; }
  std::string text() const {
    std::string out;
    for (const std::string& line : lines_) out += "\n    " + line;
    return out;
  }

 private:
  std::vector<std::string> lines_;
  uint64_t stragglers_ = 0;
};

// One run; also what the coordinator's process would write.
class Simulation final : public cluster::CoordinatorEvents {
 public:
  explicit Simulation(const Scenario& scenario);
  Outcome run();

 private:
  void on_begin(int64_t, uint32_t) override {}
  void on_step(const cluster::StepReport& report) override;
  void on_eval(int64_t version, const Metrics& metrics) override;
  Status on_snapshot_complete(int64_t version, const std::vector<wire::SnapshotDone>& files) override;
  void on_snapshot_abandoned(int64_t, const std::string&) override {}
  void on_stopped(ExitCode code, const std::string& reason) override;

  cluster::CoordinatorOptions coordinator_options() const;
  void fail(const std::string& what);
  bool sabotage_once();
  std::span<const float> true_values(int64_t version, uint32_t block) const;
  void start(wire::Rank rank);
  void kill(wire::Rank rank);
  void apply(const Fault& fault);
  void check_end();
  void tick();

  const Scenario scenario_;
  const Truth truth_;
  const ps::BlockTable table_;
  const Momentum optimizer_{scenario_.norm_need};
  ManualClock clock_;
  net::MemoryNetwork network_;
  LastLines log_;
  Draw draw_;
  std::unique_ptr<cluster::Coordinator> coordinator_;
  std::vector<std::unique_ptr<SimTask>> tasks_;
  std::set<wire::Rank> frozen_, gone_;  // gone: killed, and not to come back of itself
  uint64_t lives_ = 0;
  uint32_t occasions_ = 0;  // to pass before the sabotage
  std::map<int64_t, uint32_t> written_;
  std::vector<int64_t> snapshots_;
  std::vector<int64_t> evals_;
  std::optional<ExitCode> code_;
  std::string reason_;
  bool server_killed_ = false;
  Outcome outcome_;
};

Simulation::Simulation(const Scenario& scenario)
    : scenario_(scenario),
      truth_(find_truth(scenario)),
      table_(scenario.parameters, scenario.servers),
      network_(scenario.tasks(), clock_,
               {.seed = scenario.seed,
                .delay_least = 10 * kMicrosecond,
                .delay_most = scenario.delay_most,
                .retry = 5 * kMillisecond,
                .peer_timeout = 200 * kMillisecond}),
      draw_(scenario.seed, "simulation") {
  occasions_ = draw_.below(3);
  coordinator_ = std::make_unique<cluster::Coordinator>(coordinator_options(), table_, network_.transport(0), log_,
                                                        *this, clock_.now());
  const SimTask::World world{
      .common = {.scenario = scenario_,
                 .table = table_,
                 .network = network_,
                 .clock = clock_,
                 .fail = [this](const std::string& what) { fail(what); },
                 .sabotage_once = [this] { return sabotage_once(); }},
      .optimizer = optimizer_,
      .coordinator = *coordinator_,
      .on_written =
          [this](int64_t version, uint32_t block, std::span<const float> values) {
            ++written_[version];
            if (!same(values, true_values(version, block), scenario_.tolerance)) {
              fail(fmt::format("the snapshot of version {} holds other bits of block {}", version, block));
            }
          },
      .restart =
          [this](wire::Rank rank) {
            network_.at(clock_.now(), [this, rank] {
              kill(rank);
              start(rank);
            });
          }};
  for (uint32_t rank = 0; rank < scenario_.tasks(); ++rank) {
    tasks_.push_back(std::make_unique<SimTask>(world, rank));
    for (uint32_t server = 0; server < std::min(rank, scenario_.servers); ++server) network_.link(server, rank);
  }
}

cluster::CoordinatorOptions Simulation::coordinator_options() const {
  cluster::CoordinatorOptions o;
  for (uint32_t rank = 0; rank < scenario_.tasks(); ++rank) {
    o.tasks.push_back({fmt::format("task:{}", rank), "sim", scenario_.computes(rank), scenario_.serves(rank),
                       rank >= scenario_.listed()});
  }
  o.steps = scenario_.steps;
  o.micro_batches = scenario_.micro_batches;
  o.eval_micro_batches = scenario_.eval_micro_batches;
  o.eval_every = scenario_.eval_every;
  o.checkpoint_every = scenario_.checkpoint_every;
  o.checkpoint_folder = "checkpoints";
  o.norms.rounds = ps::norm_rounds(scenario_.clip_norm.has_value(), scenario_.norm_need);
  o.norms.clip_norm = scenario_.clip_norm;
  if (scenario_.norm_need != optim::NormNeed::kNone)
    o.norms.ratio = [](const ParameterInfo&, double values, double other) { return ratio_of(values, other); };
  o.peer_timeout = kSecond;
  o.start_timeout = o.idle_timeout = 20 * kSecond;
  o.rate = learning_rate;
  o.rule = scenario_.rule;
  o.speculate = scenario_.speculate;
  return o;
}

void Simulation::fail(const std::string& what) {
  if (outcome_.failure.empty()) outcome_.failure = what + log_.text();
}

bool Simulation::sabotage_once() {
  if (outcome_.sabotaged || occasions_-- > 0) return false;
  return outcome_.sabotaged = true;
}

std::span<const float> Simulation::true_values(int64_t version, uint32_t block) const {
  const ps::Block& b = table_.block(block);
  return std::span(truth_.versions[static_cast<size_t>(version)][static_cast<size_t>(b.parameter)])
      .subspan(static_cast<size_t>(b.first), static_cast<size_t>(b.elements));
}

// --- what the coordinator tells

void Simulation::on_step(const cluster::StepReport& report) {
  const auto at = static_cast<size_t>(report.step);
  if (report.step != outcome_.steps) fail(fmt::format("step {} is reported after {}", report.step, outcome_.steps));
  if (!same(report.metrics, truth_.steps[at], scenario_.tolerance))
    fail(fmt::format("other metrics of step {}", report.step));
  if (!same(report.norm, truth_.norms[at], scenario_.tolerance))
    fail(fmt::format("another norm of step {}", report.step));
  if (report.rate != learning_rate(report.step)) fail(fmt::format("another rate of step {}", report.step));
  ++outcome_.steps;
}

void Simulation::on_eval(int64_t version, const Metrics& metrics) {
  const auto truth = truth_.evals.find(version);
  if (truth == truth_.evals.end() || !same(metrics, truth->second, scenario_.tolerance))
    fail(fmt::format("other metrics of version {}", version));
  evals_.push_back(version);
}

Status Simulation::on_snapshot_complete(int64_t version, const std::vector<wire::SnapshotDone>&) {
  if (written_[version] != table_.blocks().size()) fail(fmt::format("snapshot {} lacks blocks", version));
  snapshots_.push_back(version);
  return {};
}

void Simulation::on_stopped(ExitCode code, const std::string& reason) {
  code_ = code;
  reason_ = reason;
}

// --- lives

void Simulation::start(wire::Rank rank) {
  if (network_.alive(rank)) return;
  const uint64_t life = ++lives_;
  network_.start(rank, *tasks_[rank], life);
  tasks_[rank]->begin_life(life);
}

void Simulation::kill(wire::Rank rank) {
  if (!network_.alive(rank)) return;
  network_.kill(rank);
  tasks_[rank]->end_life();
  frozen_.erase(rank);
  ++outcome_.restarts;
}

void Simulation::apply(const Fault& fault) {
  if (coordinator_->finished() || !network_.alive(fault.rank)) return;
  if (fault.kind == Fault::Kind::kLeave) {
    tasks_[fault.rank]->leave();
    const Fault end{Fault::Kind::kKill, fault.rank, clock_.now() + 2 * scenario_.delay_most, fault.back_after};
    network_.at(end.at, [this, end] { apply(end); });
    return;
  }
  if (fault.kind == Fault::Kind::kKill) {
    kill(fault.rank);
    if (fault.back_after) network_.at(clock_.now() + *fault.back_after, [this, rank = fault.rank] { start(rank); });
    return;
  }
  if (!frozen_.insert(fault.rank).second) return;
  network_.freeze(fault.rank);
  tasks_[fault.rank]->freeze(true);
  network_.at(clock_.now() + *fault.back_after, [this, rank = fault.rank] {
    if (frozen_.erase(rank) == 0) return;
    tasks_[rank]->freeze(false);
    network_.thaw(rank);
  });
}

void Simulation::tick() {
  coordinator_->on_tick(clock_.now());
  if (!coordinator_->finished()) network_.at(clock_.now() + kTick, [this] { tick(); });
}

Outcome Simulation::run() {
  for (uint32_t rank = 0; rank < scenario_.listed(); ++rank) {
    network_.at(draw_.between(0, 20) * kMillisecond, [this, rank] { start(rank); });
  }
  for (uint32_t i = 0; i < scenario_.joiners.size(); ++i) {
    network_.at(scenario_.joiners[i], [this, rank = scenario_.listed() + i] { start(rank); });
  }
  network_.at(0, [this] { tick(); });
  for (const Fault& fault : scenario_.faults) network_.at(fault.at, [this, fault] { apply(fault); });
  if (scenario_.interrupt_at) network_.at(*scenario_.interrupt_at, [this] { coordinator_->interrupt(); });
  if (scenario_.server_kill) {
    network_.at(scenario_.server_kill->at, [this] {
      server_killed_ = !coordinator_->finished();
      apply(*scenario_.server_kill);
    });
  }
  while (outcome_.failure.empty() && !coordinator_->finished()) {
    if (!network_.step()) fail("nothing is left to happen");
  }
  if (outcome_.failure.empty()) check_end();
  for (const auto& task : tasks_) {
    if (task->server() != nullptr) outcome_.duplicates += task->server()->counters().duplicates;
  }
  outcome_.stragglers = log_.stragglers();
  outcome_.network = network_.counts();
  return outcome_;
}

void Simulation::check_end() {
  if (!code_) return fail("on_stopped was not called");
  if (server_killed_ && *code_ == ExitCode::kPeerLost) return;
  const bool interrupted = scenario_.interrupt_at && *code_ == ExitCode::kInterrupted;
  if (*code_ != ExitCode::kDone && !interrupted) return fail("the run ends: " + reason_);
  if (!interrupted && outcome_.steps != scenario_.steps) return fail("steps are missing");
  if (interrupted && scenario_.faults.empty() && outcome_.steps > 0 &&
      (snapshots_.empty() || snapshots_.back() != outcome_.steps)) {
    return fail("an interrupted run ends without a snapshot");
  }
  for (uint32_t block = 0; block < table_.blocks().size(); ++block) {
    const ps::ShardServer* server = tasks_[table_.block(block).server]->server();
    if (server == nullptr) continue;  // killed at the end, or interrupted before the beginning
    // An interruption without workers ends in the middle of a step.
    const int64_t version = interrupted ? server->version() : outcome_.steps;
    const bool next = interrupted && version < scenario_.steps &&
                      same(server->values(block), true_values(version + 1, block), scenario_.tolerance);
    if (server->version() != version ||
        !(next || same(server->values(block), true_values(version, block), scenario_.tolerance))) {
      return fail(fmt::format("block {} ends with other bits, at version {}", block, server->version()));
    }
  }
  if (scenario_.interrupt_at) return;
  if (snapshots_ != truth_.snapshots) return fail("other versions are written");
  std::vector<int64_t> evals;
  for (const auto& [version, metrics] : truth_.evals) evals.push_back(version);
  if (evals_ != evals) return fail("other versions are evaluated");
}

}  // namespace

Outcome simulate(const Scenario& scenario) { return Simulation(scenario).run(); }

}  // namespace dtrain::sim
