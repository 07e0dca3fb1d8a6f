#include "step_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

namespace dtrain::cmd {
namespace {

using worker::OpProfile;

// Times in milliseconds a step.
struct Row {
  std::string name, note;
  double calls = 0, forward = 0, backward = 0, update = 0, flops = 0, bytes = 0;

  double compute() const { return forward + backward; }
  double total() const { return compute() + update; }
};

bool is_backward(const std::string& op) { return op.find(".backward") != std::string::npos; }

class Rows {
 public:
  explicit Rows(const OpProfile& profile) : steps_(profile.steps()) {}

  void add(const std::string& name, const OpProfile::Op& op, bool backward) {
    auto at = std::find_if(rows_.begin(), rows_.end(), [&](const Row& r) { return r.name == name; });
    if (at == rows_.end()) at = rows_.insert(rows_.end(), Row{.name = name, .note = op.implementation});
    const double runs = static_cast<double>(op.runs) / steps_;
    at->calls += runs;
    (backward ? at->backward : at->forward) += static_cast<double>(op.compute) / kMillisecond / steps_;
    at->update += static_cast<double>(op.hand_over) / kMillisecond / steps_;
    at->flops += op.flops * runs;
    at->bytes += op.bytes * runs;
  }
  // The longest first.
  std::vector<Row> sorted() const {
    std::vector<Row> rows = rows_;
    std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.total() > b.total(); });
    return rows;
  }

 private:
  double steps_;
  std::vector<Row> rows_;  // in the order of coming
};

std::string rate(double amount, double ms, double peak) {
  if (amount == 0 || ms == 0) return fmt::format("{:>8} {:>5}", "", "");
  const double per_second = amount / (ms * 1e6);
  return fmt::format("{:>8.1f} {:>4.0f}%", per_second, 100 * per_second / peak);
}

std::string line(const Row& r, double step, const ops::cpu::MachinePeak& peak) {
  return fmt::format("{:<30.30} {:>5.0f} {:>9.3f} {:>9.3f} {:>9.3f} {:>5.1f}%  {}  {}\n", r.name, r.calls, r.forward,
                     r.backward, r.update, 100 * r.total() / step, rate(r.flops, r.compute(), peak.gflops),
                     rate(r.bytes, r.compute(), peak.gbytes));
}

std::string heading(const std::string& what) {
  return fmt::format("\n{:<30} {:>5} {:>9} {:>9} {:>9} {:>6}  {:>8} {:>5}  {:>8} {:>5}\n", what, "calls", "forward",
                     "backward", "update", "", "GFLOP/s", "", "GB/s", "");
}

std::string layer_name(const graph::Network& network, int layer) {
  if (layer < 0) return "(between layers)";
  const graph::NetworkLayer& l = network.layers()[static_cast<size_t>(layer)];
  return fmt::format("{} ({})", l.name, l.type);
}

double step_ms(const OpProfile& profile) {
  double ns = static_cast<double>(profile.between());
  for (const OpProfile::Op& op : profile.ops()) ns += static_cast<double>(op.compute + op.hand_over);
  return ns / kMillisecond / profile.steps();
}

double step_flops(const OpProfile& profile) {
  double flops = 0;
  for (const OpProfile::Op& op : profile.ops()) flops += op.flops * static_cast<double>(op.runs);
  return flops / profile.steps();
}

}  // namespace

std::string profile_text(const OpProfile& profile, const graph::Network& network, const ops::cpu::MachinePeak& peak) {
  const double step = step_ms(profile);
  const double achieved = step_flops(profile) / (step * 1e6);
  Rows by_op(profile), by_layer(profile);
  bool behind_loss = false;
  for (const OpProfile::Op& op : profile.ops()) {
    // An op of a layer's backward pass need not say so by its name: a reorder, a sum of gradients.
    behind_loss = behind_loss || is_backward(op.name);
    by_op.add(op.name, op, behind_loss);
    by_layer.add(layer_name(network, op.layer), op, behind_loss);
  }
  std::string text = fmt::format(
      "a step takes {:.3f} ms: {:.1f} GFLOP/s in products, {:.0f}% of the {:.1f} that this machine's best product "
      "reaches\nmeasured peak: {:.1f} GFLOP/s{}, {:.1f} GB/s; times below are milliseconds a step\n",
      step, achieved, 100 * achieved / peak.gflops, peak.gflops, peak.gflops,
      peak.bf16_gflops > 0 ? fmt::format(" (bf16 {:.1f})", peak.bf16_gflops) : "", peak.gbytes);
  text += heading("op");
  for (const Row& r : by_op.sorted()) text += line(r, step, peak);
  const double between = static_cast<double>(profile.between()) / kMillisecond / profile.steps();
  text += fmt::format("{:<30} {:>5} {:>29.3f} {:>5.1f}%\n", "between steps", "", between, 100 * between / step);
  text += heading("layer");
  for (const Row& r : by_layer.sorted()) text += line(r, step, peak);
  return text;
}

std::string profile_json(const OpProfile& profile, const graph::Network& network, const ops::cpu::MachinePeak& peak) {
  const double steps = profile.steps();
  nlohmann::ordered_json json{{"peak_gflops", peak.gflops},
                              {"peak_bf16_gflops", peak.bf16_gflops},
                              {"peak_gbytes", peak.gbytes},
                              {"step_ms", step_ms(profile)},
                              {"step_gflop", step_flops(profile) / 1e9}};
  for (const OpProfile::Op& op : profile.ops()) {
    const double ms = static_cast<double>(op.compute) / kMillisecond / steps;
    nlohmann::ordered_json row{{"op", op.name},
                               {"layer", op.layer < 0 ? "" : network.layers()[static_cast<size_t>(op.layer)].name},
                               {"implementation", op.implementation},
                               {"ms", ms},
                               {"update_ms", static_cast<double>(op.hand_over) / kMillisecond / steps}};
    if (op.flops > 0 && ms > 0) row["gflops"] = op.flops / (ms * 1e6);
    if (ms > 0) row["gbytes"] = op.bytes / (ms * 1e6);
    json["ops"].push_back(std::move(row));
  }
  return json.dump();
}

}  // namespace dtrain::cmd
