#include "traffic_table.h"

#include <fmt/format.h>

#include "base/bandwidth.h"
#include "bytes_text.h"

namespace dtrain::cmd {
namespace {

using cluster::Placement;

std::string seconds_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.3g} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.3g} ms", seconds * 1e3);
  return fmt::format("{:.3g} s", seconds);
}

// What makes the table's bytes those of the worst case.
std::string at_most(const node::TravelForm& form) {
  std::string out;
  const auto add = [&out](bool there, const char* what) {
    if (there) out += fmt::format("{} {}", out.empty() ? "; at most, with" : " and", what);
  };
  add(form.gradients != nullptr, "train.compression");
  add(form.pulls != nullptr, "train.compress_pulls");
  add(form.rows_received > 0, "rows of sparse tables");
  return out;
}

void print_row(const std::string& placement, const char* kind, const std::vector<node::Traffic>& tasks,
               std::optional<double> bandwidth) {
  if (tasks.empty()) return;
  const node::Traffic most = node::largest(tasks);
  fmt::print("{:<10} {:>5} {:<7} {:>12} {:>12}", placement, tasks.size(), kind, bytes_text(most.sent),
             bytes_text(most.received));
  if (bandwidth) fmt::print(" {:>12}", seconds_text(std::max(most.sent, most.received) / *bandwidth));
  fmt::print("\n");
}

}  // namespace

Result<std::optional<node::Bandwidths>> read_bandwidths(const std::string& text) {
  if (text.empty()) return std::optional<node::Bandwidths>();
  node::Bandwidths out;
  for (size_t start = 0; start <= text.size();) {
    const std::string part = text.substr(start, text.find(',', start) - start);
    start += part.size() + 1;
    const size_t equals = part.find('=');
    const std::string kind = equals == std::string::npos ? "" : part.substr(0, equals);
    Result<double> bytes = parse_bandwidth(equals == std::string::npos ? part : part.substr(equals + 1));
    if (!bytes) return fail(ExitCode::kUsage, "--bandwidth: " + bytes.error().message);
    if (kind != "" && kind != "ps" && kind != "worker")
      return fail(ExitCode::kUsage,
                  fmt::format("--bandwidth: '{}' is no kind of task: ps=25Gbps,worker=1Gbps, or one for all", kind));
    double& first = kind == "worker" ? out.worker : out.ps;
    if (first != 0 || (kind == "" && out.worker != 0))
      return fail(ExitCode::kUsage, fmt::format("--bandwidth: '{}' says a second time how fast a link is", part));
    first = *bytes;
    if (kind == "") out.worker = *bytes;
  }
  if (out.ps == 0 || out.worker == 0)
    return fail(ExitCode::kUsage, fmt::format("--bandwidth: that of a {} is missing: ps=25Gbps,worker=1Gbps, or one "
                                              "for all",
                                              out.ps == 0 ? "ps" : "worker"));
  return std::optional(out);
}

void print_traffic(const std::vector<ParameterInfo>& parameters, const node::TaskCounts& tasks, uint32_t micro_batches,
                   const consistency::Mode& mode, const node::TravelForm& form,
                   const std::optional<node::Bandwidths>& bandwidths) {
  if (tasks.ps + tasks.workers + tasks.joiners < 2) return;
  std::vector<Placement> placements;
  if (tasks.ps > 0) placements.push_back(Placement::kPs);
  if (tasks.workers > 0) placements.push_back(Placement::kWorkers);
  if (tasks.ps > 0 && tasks.workers > 0) placements.push_back(Placement::kAll);

  fmt::print(
      "to and from other tasks in a step, of each kind the task with the most{}\n{:<10} {:<13} {:>12} {:>12}{}\n",
      at_most(form), "servers", "tasks", "sends", "receives", bandwidths ? fmt::format(" {:>12}", "takes") : "");
  // Without bandwidths all links are alike, and any number will do to compare them.
  const node::Bandwidths speed = bandwidths.value_or(node::Bandwidths{1, 1});
  std::optional<Placement> best;
  node::Bottleneck cheapest;
  for (const Placement placement : placements) {
    const node::PlacementTraffic traffic =
        node::estimate_traffic(parameters, placement, tasks, micro_batches, mode, form);
    print_row(to_string(placement), "ps", traffic.ps, bandwidths ? std::optional(bandwidths->ps) : std::nullopt);
    print_row(traffic.ps.empty() ? to_string(placement) : "", "workers", traffic.workers,
              bandwidths ? std::optional(bandwidths->worker) : std::nullopt);
    const node::Bottleneck slowest = node::find_bottleneck(traffic, speed);
    if (best && slowest.seconds >= cheapest.seconds) continue;
    best = placement;
    cheapest = slowest;
  }
  const std::string limit =
      fmt::format("what a {} {}", cluster::to_string(cheapest.role), cheapest.sends ? "sends" : "receives");
  if (bandwidths)
    fmt::print("at {} of a ps and {} of a worker the cheapest is servers = \"{}\": at least {} a step, for {}\n",
               bandwidth_text(bandwidths->ps), bandwidth_text(bandwidths->worker), to_string(*best),
               seconds_text(cheapest.seconds), limit);
  else
    fmt::print("where all links are equally fast the cheapest is servers = \"{}\": {} a step through one, {}\n",
               to_string(*best), bytes_text(cheapest.seconds), limit);
  if (tasks.ps == 0) fmt::print("(--ps M compares it with M servers of their own)\n");
  fmt::print("\n");
}

}  // namespace dtrain::cmd
